package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
)

// maxSuggest bounds how many names of a folder are looked at for a suggestion.
const maxSuggest = 2000

// explainOpen turns what opening rel gave into an error that a model can act on.
// name is the path as it was asked for.
func (t *tree) explainOpen(ctx context.Context, name, rel string, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return contextError(ctx)
	case errors.Is(err, errHidden):
		return hiddenPath(name)
	case errors.Is(err, errIsDir):
		return &Error{Category: InvalidInput, Message: quoteName(name) + " is a folder", Advice: "Use list_files to see what is in it."}
	case errors.Is(err, errSpecial):
		return Errorf(InvalidInput, "%s is a device, a pipe or a socket; only regular files can be used", quoteName(name))
	case errors.Is(err, errSwapped), errors.Is(err, errLink):
		return &Error{Category: Execution, Message: quoteName(name) + " changes while it is opened", Retryable: true}
	case errors.Is(err, errNotDir), errors.Is(err, syscall.ENOTDIR):
		return t.notFolder(name, rel)
	case errors.Is(err, fs.ErrNotExist):
		return t.notFound(name, rel)
	case errors.Is(err, syscall.ELOOP):
		return Errorf(InvalidInput, "%s is part of a symbolic link loop", quoteName(name))
	case errors.Is(err, syscall.ENAMETOOLONG):
		return Errorf(InvalidInput, "%s is too long for a file name", quoteName(name))
	case errors.Is(err, fs.ErrPermission):
		return t.notPermitted(name, rel)
	default:
		return Errorf(Execution, "open %s: %v", quoteName(name), err)
	}
}

// notPermitted tells a link that leads outside from a file whose mode forbids it.
func (t *tree) notPermitted(name, rel string) *Error {
	if _, err := t.realPath(rel); err != nil && err == fs.ErrPermission { //nolint:errorlint // real returns it as it is for a link that leaves; the system's own is wrapped
		return outsideThroughLink(name)
	}
	return Errorf(Execution, "permission denied: %s", quoteName(name))
}

// notFolder says which part of a path is no folder.
func (t *tree) notFolder(name, rel string) *Error {
	at := "."
	for _, p := range pathParts(rel) {
		at = path.Join(at, p)
		if fi, err := t.root.Stat(at); err == nil && !fi.IsDir() {
			category := NotFound
			if at == rel {
				category = InvalidInput
			}
			return Errorf(category, "%s is not a folder, but a file", quoteName(at))
		}
	}
	return Errorf(NotFound, "%s is not a folder", quoteName(name))
}

// notFound says what is missing, and names something alike that is there.
func (t *tree) notFound(name, rel string) *Error {
	e := Errorf(NotFound, "there is no %s", quoteName(name))
	at := "."
	for _, p := range pathParts(rel) {
		next := path.Join(at, p)
		if _, err := t.root.Lstat(next); err == nil {
			at = next
			continue
		}
		e.Advice = t.suggestName(at, p)
		break
	}
	return e
}

// suggestName names what is in the folder at dir and called almost like name.
func (t *tree) suggestName(dir, name string) string {
	d, err := t.dir(dir)
	if err != nil {
		return ""
	}
	defer d.Close()
	f, err := d.Open(".")
	if err != nil {
		return ""
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxSuggest) // what could be read is enough for a hint
	names = t.visibleNames(dir, names)
	if like, ok := nearest(name, names); ok {
		return fmt.Sprintf("Did you mean %s?", quoteName(path.Join(dir, like)))
	}
	if len(names) == 0 {
		return fmt.Sprintf("The folder %s is empty.", quoteName(dir))
	}
	return fmt.Sprintf("In %s there are: %s.", quoteName(dir), someOf(names, 20))
}

// visibleNames leaves hidden names out.
func (t *tree) visibleNames(dir string, names []string) []string {
	kept := names[:0]
	for _, n := range names {
		hidden := false
		for _, h := range t.hidden {
			hidden = hidden || h == path.Join(dir, n)
		}
		if !hidden {
			kept = append(kept, n)
		}
	}
	return kept
}
