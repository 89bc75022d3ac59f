package sandbox

import (
	"strconv"
	"strings"
)

// defaults of the variables that every command gets, where our own environment
// has none.
var defaultEnv = []struct{ name, value string }{
	{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	{"HOME", "/"},
	{"LANG", "C.UTF-8"},
	{"TERM", "dumb"},
}

// commandEnv is what a command gets: the few variables that programs can't do
// without, those that the profile names, and nothing else.
func commandEnv(p Profile, lookup func(string) (string, bool), tty bool, tmp string, proxyPort int) []string {
	var env []string
	for _, d := range defaultEnv {
		value, ok := lookup(d.name)
		switch {
		case d.name == "TERM" && tty:
			if !ok || value == "dumb" {
				value = "xterm-256color"
			}
		case d.name == "TERM":
			value = d.value // no terminal interprets its codes
		case !ok:
			value = d.value
		}
		env = append(env, d.name+"="+value)
	}
	env = append(env, "TMPDIR="+tmp)
	for _, entry := range p.Env {
		if strings.Contains(entry, "=") {
			env = setEnv(env, entry)
		} else if value, ok := lookup(entry); ok {
			env = setEnv(env, entry+"="+value)
		}
	}
	if proxyPort == 0 {
		return env
	}
	address := "http://127.0.0.1:" + strconv.Itoa(proxyPort)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		env = setEnv(env, name+"="+address)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		env = setEnv(env, name+"=localhost,127.0.0.1,::1")
	}
	return env
}

// setEnv replaces a variable or adds it.
func setEnv(env []string, entry string) []string {
	name, _, _ := strings.Cut(entry, "=")
	for i, e := range env {
		if strings.HasPrefix(e, name+"=") {
			env[i] = entry
			return env
		}
	}
	return append(env, entry)
}
