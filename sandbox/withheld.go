package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const inferredFromCommand = "inferred from the command: "

// Withheld says what the sandbox keeps from a command that names these paths and hosts,
// or nothing. What programs are told of it is that a file isn't there or that nobody
// answers, and some say nothing at all, so the words are held against the plan:
//
//   - A hidden path is empty or missing inside, however the command ended.
//   - A path that is there on the host and below a private directory, and a host
//     without a network, count only if the command failed.
//
// Whether the command really asked for what it names can't be known; the detail says
// what it rests on.
func (p *Plan) Withheld(exit Exit, paths, hosts []string) *Violation {
	if exit.Failure != nil {
		return nil
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(p.Profile.Cwd, path)
		}
		v := p.conceals(filepath.Clean(path))
		if v != nil && (exit.Code != 0 || v.Permanent) {
			v.Detail = inferredFromCommand + v.Detail
			return v
		}
	}
	if exit.Code == 0 || len(hosts) == 0 || p.Profile.Network != NetworkDeny || p.Enforcement.Network == None {
		return nil
	}
	return &Violation{Boundary: "network", Host: hosts[0], Detail: inferredFromCommand + "it names " + hosts[0] + ", and the network is deny"}
}

const hiddenDetail = "the path is hidden"

// conceals tells whether a path of the host can't be seen inside.
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
		if path != private && within(private) {
			if _, err := os.Lstat(path); err == nil {
				return &Violation{Boundary: "filesystem", Path: path, Detail: "the path is the host's, and " + private + " is the sandbox's own"}
			}
		}
	}
	return nil
}

var missing = regexp.MustCompile(`(?i)no such file or directory|ENOENT|FileNotFoundError|does not exist`)

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
