package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const inferredFromCommand = "inferred from the command: "

// Named is what the words of a command name: paths, those among them that redirections
// write to, and hosts.
type Named struct{ Paths, Writes, Hosts []string }

// Withheld says what the sandbox keeps from a command that names these things and printed
// that at last, or nothing. What programs are told of it is that a file isn't there or
// that no one answers, and some say nothing at all, so the words are held against the
// plan:
//
//   - A hidden path is empty or missing inside, however the command ended.
//   - A path that is the host's and below a private directory, a redirection to what
//     can't be written, and a host without a network, count only if the command failed
//   - or if a part of it did and the rest went on: then it printed a refusal of
//     something that it names.
//
// Whether the command really asked for what it names can't be known; the detail says
// what it rests on.
func (p *Plan) Withheld(exit Exit, named Named, printed string) *Violation {
	if exit.Failure != nil {
		return nil
	}
	passed := (*Violation)(nil)
	if exit.Code == 0 {
		passed = p.inferRefusal(printed)
	}
	for _, path := range slices.Concat(named.Paths, named.Writes) {
		if path == "" {
			continue
		}
		path = p.absolute(path)
		v := p.conceals(path)
		switch {
		case v != nil && (exit.Code != 0 || v.Permanent):
			v.Detail = inferredFromCommand + v.Detail
			return v
		case passed != nil && passed.Path == path:
			return passed
		}
	}
	if passed != nil && passed.Boundary == "network" && len(named.Hosts) > 0 {
		passed.Host = named.Hosts[0]
		return passed
	}
	if exit.Code == 0 {
		return nil
	}
	for _, path := range named.Writes {
		if v := p.refuses(p.absolute(path)); v != nil && path != "" && p.Enforcement.Filesystem != None {
			v.Detail = inferredFromCommand + v.Detail
			return v
		}
	}
	if len(named.Hosts) == 0 || p.Profile.Network != NetworkDeny || p.Enforcement.Network == None {
		return nil
	}
	return &Violation{Boundary: "network", Host: named.Hosts[0], Detail: inferredFromCommand + "it names " + named.Hosts[0] + ", and the network is deny"}
}

// absolute is a path as a command in the plan's folder means it.
func (p *Plan) absolute(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Profile.Cwd, path)
	}
	return filepath.Clean(path)
}

// refusalWords are in everything that programs print of a refusal that inferRefusal
// finds. Most commands print none of them, which is quickly seen.
var refusalWords = []string{"No such file", "not exist", "nonexistent", "ENOENT", "denied", "ead-only file system", "not permitted", "EACCES", "EROFS", "EPERM", "FileNotFound", "PermissionError", "resolve", "onnect", "unreachable", "name resolution"}

// MayTellRefusal says that a text may tell of something that the sandbox kept from a
// command.
func MayTellRefusal(printed string) bool {
	return slices.ContainsFunc(refusalWords, func(word string) bool { return strings.Contains(printed, word) })
}

// inferRefusal finds the refusal of a path or of a host in what a command printed.
func (p *Plan) inferRefusal(printed string) *Violation {
	if !MayTellRefusal(printed) {
		return nil
	}
	for _, infer := range []func(string, *Plan) *Violation{inferFiles, inferMissing, inferNetwork} {
		if v := infer(printed, p); v != nil {
			v.Detail = inferred + v.Detail
			return v
		}
	}
	return nil
}

const hiddenDetail = "the path is hidden"

// conceals tells whether a path of the host can't be seen inside. One that the host
// doesn't have can't be made inside either if its folder is the host's.
func (p *Plan) conceals(path string) *Violation {
	within := func(dir string) bool { return pathWithin(path, dir) }
	if slices.ContainsFunc(p.Hidden, within) {
		return &Violation{Boundary: "filesystem", Path: path, Permanent: true, Detail: hiddenDetail}
	}
	own := slices.Concat([]string{p.Profile.Root}, p.WriteRoots, p.Profile.ReadRoots)
	if !p.use.mount || slices.ContainsFunc(own, within) {
		return nil
	}
	for _, private := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		for at := path; at != private && pathWithin(at, private); at = filepath.Dir(at) {
			if _, err := os.Lstat(at); err == nil {
				return &Violation{Boundary: "filesystem", Path: path, Detail: at + " is the host's, and " + private + " is the sandbox's own"}
			}
		}
	}
	return nil
}

var missing = regexp.MustCompile(`(?i)no such file or directory|ENOENT|FileNotFoundError|does not exist|directory nonexistent`)

// inferMissing finds a path that is missing because the sandbox conceals it.
func inferMissing(tail string, plan *Plan) *Violation {
	if plan.Enforcement.Filesystem == None {
		return nil
	}
	for line := range strings.Lines(tail) {
		if !missing.MatchString(line) {
			continue
		}
		for _, match := range absolute.FindAllStringSubmatch(line, -1) {
			if v := plan.conceals(filepath.Clean(match[1])); v != nil {
				return v
			}
		}
	}
	return nil
}
