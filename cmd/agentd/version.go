package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildVersion returns the module's version, or the commit that it was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	return "devel" + commit + modified
}

// versionInfo is the answer of "agentd version".
type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version, the compiler and the platform.\n\nExit codes: 0 done, 2 usage.",
		Example: "  agentd version\n  agentd version --json",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{a.version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return a.print(v, func(p *printer) { p.linef("agentd %s (%s, %s/%s)", v.Version, v.Go, v.OS, v.Arch) })
		},
	}
}
