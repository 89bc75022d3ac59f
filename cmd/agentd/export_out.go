package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentd/command"
)

// checkOut reports whether an export can go where it is wanted, as far as that can be
// told before: what was exported is a fact, also if it was never written down.
func checkOut(p command.Params, out string) error {
	if out == "" {
		return nil
	}
	form := filepath.Ext(out)
	_, isReview := p.(*command.ExportReview)
	_, isCase := p.(*command.ExportReplay)
	if isReview && form != ".md" && form != ".html" && form != ".json" {
		return usagef("export to %s: a review is a file that ends with .md, .html or .json", out)
	}
	if isCase && form == ".zip" {
		return usagef("export to %s: a replay case is one JSON file", out)
	}
	if !isReview && !isCase && form != ".json" && form != ".zip" {
		entries, err := os.ReadDir(out)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the directory is made, with those above it
		}
		if len(entries) > 0 {
			err = errNotEmpty
		}
		if err != nil {
			return fmt.Errorf("export to %s: %w", out, err)
		}
		return nil
	}
	if _, err := os.Stat(filepath.Dir(out)); err != nil {
		return fmt.Errorf("export to %s: %w", out, err)
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return fmt.Errorf("export to %s: it is a directory", out)
	}
	return nil
}
