//go:build !unix

package datadir

import "io/fs"

// Mine reports true: where files have no owner in this sense, the mark alone decides.
func Mine(fs.FileInfo) bool { return true }

func othersWrite(fs.FileInfo) bool { return false }

// OnlyMine reports true, as Mine does.
func OnlyMine(fs.FileInfo) bool { return true }

func onlyMine(fs.FileInfo) bool { return true }

func inodeOf(fs.FileInfo) uint64 { return 0 }
