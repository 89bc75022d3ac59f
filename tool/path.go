package tool

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/tool/toolkind"
)

// maxPath is longer than any path that a kernel opens in one piece.
const maxPath = 4096

// Locate returns where name leads within the workspace root: a slash-separated
// path relative to it, "." for the root itself. Relative names start from cwd,
// an absolute folder within root. It looks at names alone, not at the disk, so
// symbolic links are not resolved: ".." takes back the name before it. The error
// is an [*Error]: a name that leads outside is a sandbox violation.
func Locate(root, cwd, name string) (string, error) {
	switch {
	case name == "":
		return "", Errorf(InvalidInput, "path: is empty")
	case strings.IndexByte(name, 0) >= 0:
		return "", Errorf(InvalidInput, "path: contains a zero byte")
	case len(name) > maxPath:
		return "", Errorf(InvalidInput, "path: is %d bytes long, at most %d are possible", len(name), maxPath)
	case name == "~" || strings.HasPrefix(name, "~/"):
		return "", &Error{
			Category: InvalidInput, Message: `path: "~" is not expanded here`,
			Advice: "Use a path within the workspace; for a file that is really called ~ write ./~",
		}
	}
	abs := filepath.FromSlash(name)
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(cwd, abs)
	}
	rel, ok := relativeWithin(root, abs)
	if !ok {
		return "", outside(name)
	}
	return rel, nil
}

// CheckPath refuses the path of a file tool's call that leads outside of the
// workspace root, before anyone is asked about the call: an approval could not make
// it work. resolve says where an absolute path leads once links are followed. Other
// tools have no such path.
func CheckPath(toolName, root, cwd string, input event.Raw, resolve func(path string) string) error {
	if toolkind.Of(toolName).Access() == toolkind.NoFile {
		return nil
	}
	in := struct {
		Path string `json:"path"`
	}{"."}
	if err := json.Unmarshal(input, &in); err != nil {
		return Errorf(InvalidInput, "the input is not what the schema asks for: %v", err)
	}
	rel, err := Locate(root, cwd, in.Path)
	if err != nil {
		return err
	}
	if _, ok := relativeWithin(root, resolve(filepath.Join(root, filepath.FromSlash(rel)))); !ok {
		return outsideThroughLink(in.Path)
	}
	return nil
}

// relativeWithin returns abs relative to root, with slashes, if it is root or below it.
func relativeWithin(root, abs string) (string, bool) {
	return cleanRelative(filepath.Clean(root), filepath.Clean(abs))
}

// cleanRelative is relativeWithin for paths that are clean.
func cleanRelative(root, abs string) (string, bool) {
	rest, ok := strings.CutPrefix(abs, root)
	switch {
	case !ok:
		return "", false
	case rest == "":
		return ".", true
	case os.IsPathSeparator(root[len(root)-1]): // the root of a file system
		return filepath.ToSlash(rest), true
	case os.IsPathSeparator(rest[0]):
		return filepath.ToSlash(rest[1:]), true
	}
	return "", false
}

// outside is the refusal of a path that leaves the workspace.
func outside(name string) *Error {
	return &Error{
		Category: SandboxViolation, Message: quoteName(name) + " is outside the workspace",
		Advice: "File tools work within the workspace only; use a path there. With shell a command can write to the folders of " +
			"sandbox.writeRoots, and can ask to run outside where the permission mode allows that.",
		Boundary: "filesystem", Path: clip.Text(name, 300),
	}
}

// outsideThroughLink is the refusal of a path that a link takes out of the workspace.
func outsideThroughLink(name string) *Error {
	e := outside(name)
	e.Message = quoteName(name) + " leads outside the workspace through a symbolic link"
	return e
}

// hiddenPath is the refusal of what belongs to the runtime itself, or what the
// configuration hides.
func hiddenPath(name string) *Error {
	return &Error{
		Category: SandboxViolation, Message: quoteName(name) + " is hidden from tools",
		Boundary: "filesystem", Path: clip.Text(name, 300),
	}
}

// pathParts splits a relative path into its names; the root has none.
func pathParts(rel string) []string {
	rel = path.Clean(rel)
	if rel == "." {
		return nil
	}
	return strings.Split(rel, "/")
}

// isBelow reports whether rel is dir or lies in it.
func isBelow(dir, rel string) bool {
	return dir == "." || rel == dir || strings.HasPrefix(rel, dir+"/")
}
