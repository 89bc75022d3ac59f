package config

import (
	"path/filepath"
	"strings"
)

// besideDatabase is where the files of this machine are if the facts are in a database
// and no directory is named.
const besideDatabase = "./.agentd"

// DataHome is the user's own data directory; empty if the user has no home.
func DataHome(getenv func(string) string) string {
	return baseDir(getenv, "XDG_DATA_HOME", ".local/share")
}

// UserFile is the user's configuration file, which needn't exist; empty if the user has
// no home.
func UserFile(getenv func(string) string) string {
	if dir := baseDir(getenv, "XDG_CONFIG_HOME", ".config"); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	return ""
}

// ScratchHome is the folder that sessions of the user's server work in if no one says
// where; empty if the user has no home.
func ScratchHome(getenv func(string) string) string {
	if dir := baseDir(getenv, "XDG_CACHE_HOME", ".cache"); dir != "" {
		return filepath.Join(dir, "workspace")
	}
	return ""
}

// baseDir is agentd's folder in one of the user's base directories.
func baseDir(getenv func(string) string, variable, fallback string) string {
	if dir := getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agentd")
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, fallback, "agentd")
	}
	return ""
}

// Database reports whether the facts are in a database and not in a directory.
func (c *Config) Database() bool { return IsDatabase(c.Data) }

// IsDatabase reports whether data names a database and not a directory.
func IsDatabase(data string) bool {
	return strings.HasPrefix(data, "postgres://") || strings.HasPrefix(data, "postgresql://")
}

// Directory is a directory of this machine that agentd keeps its files in.
type Directory struct {
	Path string
	// Chosen says that it was named, and is not the default.
	Chosen bool
}

// Directories returns the directories that this configuration uses, each once.
func (c *Config) Directories() []Directory {
	local := Directory{Path: c.Local(), Chosen: c.StateDir != "" || c.dataChosen && !c.Database()}
	if c.Database() || c.Data == c.Local() {
		return []Directory{local}
	}
	return []Directory{local, {Path: c.Data, Chosen: c.dataChosen}}
}

// Local returns the directory for the files of this machine.
func (c *Config) Local() string {
	switch {
	case c.StateDir != "":
		return c.StateDir
	case c.Database():
		return besideDatabase
	}
	return c.Data
}

// WithData returns a copy that keeps its facts in another directory.
func (c *Config) WithData(dir string) *Config {
	out := *c
	out.Data, out.dataChosen = dir, true
	return &out
}

// DataChosen reports whether the data was named and is not the user's own directory.
func (c *Config) DataChosen() bool { return c.dataChosen }

// WorkspaceChosen reports whether workspace.root was given and is not the default.
func (c *Config) WorkspaceChosen() bool { return c.workspaceChosen }

// ModeChosen reports whether permissions.mode was given and is not the default.
func (c *Config) ModeChosen() bool { return c.modeChosen }
