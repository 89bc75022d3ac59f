//go:build !unix

package tool

import (
	"io/fs"
	"os"
)

// keepOwner does nothing where files have no numeric owner.
func keepOwner(*os.File, fs.FileInfo) {}

// ignoreUnsupported drops every error: folders can't be synced here.
func ignoreUnsupported(error) error { return nil }
