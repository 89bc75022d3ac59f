package main

import (
	"errors"
	"fmt"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/datadir"
)

// keeper tells this user's data directories from others.
func (a *app) keeper() *datadir.Keeper {
	return datadir.New(a.getenv)
}

// errNoHome says that there is no directory to use.
var errNoHome = usagef("neither HOME nor XDG_DATA_HOME is set; set HOME, or name the data directory with --data")

// checkData refuses data directories that this user's agentd did not make, before
// anything in them is used.
func (a *app) checkData(c *config.Config) error {
	for _, d := range c.Directories() {
		if d.Path == "" {
			return errNoHome
		}
		if err := a.allowed(d, a.keeper().Check(d.Path)); err != nil {
			return err
		}
	}
	return nil
}

// claimData makes the data directories that aren't there yet, and refuses others'.
func (a *app) claimData(c *config.Config) error {
	for _, d := range c.Directories() {
		if d.Path == "" {
			return errNoHome
		}
		if err := a.allowed(d, a.keeper().Claim(d.Path)); err != nil {
			return err
		}
	}
	return nil
}

// acceptNew marks a directory that is about to become the data directory.
func (a *app) acceptNew(c *config.Config, dir string) error {
	return a.allowed(config.Directory{Path: c.Data, Chosen: true}, a.keeper().Accept(dir))
}

// allowed decides on what was found out about a directory, and says what the user can
// do. Without a key a directory that was named on purpose is taken at its word; the
// default is whatever the working directory brings along, and is not.
func (a *app) allowed(d config.Directory, err error) error {
	if refused, ok := errors.AsType[*datadir.Error](err); ok && refused.Acceptable {
		return fmt.Errorf("%w; look at it and accept it with \"agentd data accept %s\", or use another directory with --data", err, d.Path)
	}
	if !errors.Is(err, datadir.ErrNoKey) {
		return err
	}
	if !d.Chosen {
		return usagef("%w; set HOME, or name the data directory with --data", err)
	}
	if !a.warnedNoKey {
		a.warnedNoKey = true
		a.sayf("agentd: warning: %v, so %s is used because it was named; set XDG_STATE_HOME to a directory that lasts", err, d.Path)
	}
	return nil
}

// trustsData is checkData for commands that read facts and act on none: they go on,
// with a warning, and believe neither token nor server.json.
func (a *app) trustsData(c *config.Config) bool {
	if err := a.checkData(c); err != nil {
		a.sayf("agentd: warning: %v", err)
		return false
	}
	return true
}

// ownFiles are agentd's own directories, which no tool may see: the data, and the
// key that tells whose data it is.
func (a *app) ownFiles(c *config.Config) []string {
	out := dataDirs(c)
	if folder := a.keeper().Folder(); folder != "" && exists(folder) {
		out = append(out, folder)
	}
	return out
}
