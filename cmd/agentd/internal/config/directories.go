package config

import "strings"

// Database reports whether the facts are in a database and not in a directory.
func (c *Config) Database() bool { return IsDatabase(c.Data) }

// IsDatabase reports whether data names a database and not a directory.
func IsDatabase(data string) bool {
	return strings.HasPrefix(data, "postgres://") || strings.HasPrefix(data, "postgresql://")
}

// Directory is a directory of this machine that agentd keeps its files in.
type Directory struct {
	Path string
	// Chosen says that it was named, and is not the default below the working
	// directory.
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
		return findSetting("data").Default
	}
	return c.Data
}

// WithData returns a copy that keeps its facts in another directory.
func (c *Config) WithData(dir string) *Config {
	out := *c
	out.Data, out.dataChosen = dir, true
	return &out
}

// ModeChosen reports whether permissions.mode was given and is not the default.
func (c *Config) ModeChosen() bool { return c.modeChosen }
