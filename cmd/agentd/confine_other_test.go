//go:build !linux

package main

// tinyMCP is for the tests of the sandbox, which there is on Linux alone.
func tinyMCP() {}
