package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/datadir"
	"agentd/cmd/agentd/internal/keyring"
)

// keyPlace says where the key of a provider is. At most one of variable, file and item
// is set; none if there is no key.
type keyPlace struct {
	variable, file string
	item           *keyring.Item
	// stored says that "agentd login" put it there.
	stored bool
	// revision tells apart what "agentd login" put into the keyring at different times.
	revision string
}

// keyPlace returns where the key of a provider is: in the variable, the file or the item
// of the keyring that the configuration names, or where "agentd login" stored it. The
// keyring isn't asked, so that every command may know.
func (a *app) keyPlace(p config.Provider) keyPlace {
	if env := keyEnv(p); a.env[env] != "" {
		return keyPlace{variable: env}
	}
	if p.APIKeyFile != "" {
		return keyPlace{file: a.fromHomeOf(p.APIKeyFile)}
	}
	if p.Kind == config.KindScript {
		return keyPlace{}
	}
	revision, noted := a.keyringNote(p.ID)
	switch file := a.storedKeyFile(p.ID); {
	case noted || p.APIKeyKeyring != "":
		item := itemOf(p)
		return keyPlace{item: &item, stored: noted, revision: revision}
	case file != "" && exists(file):
		return keyPlace{file: file, stored: true}
	}
	return keyPlace{}
}

// itemOf is the item of the keyring for the key of a provider.
func itemOf(p config.Provider) keyring.Item {
	if item, err := keyring.ParseItem(p.APIKeyKeyring); err == nil {
		return item
	}
	return keyring.Item{Service: keyring.Service, Account: p.ID}
}

// keyOf returns the key of a provider; empty if there is none, or none that can be had.
func (a *app) keyOf(p config.Provider) string {
	key, err := a.findKey(p)
	if err != nil {
		return "" // doctor and the turn say that there is none
	}
	return key
}

// findKey returns the key of a provider, or why it can't be had.
func (a *app) findKey(p config.Provider) (string, error) {
	switch at := a.keyPlace(p); {
	case at.variable != "":
		return a.env[at.variable], nil
	case at.file != "":
		return readKey(at.file)
	case at.item != nil:
		return a.keyringKey(*at.item)
	}
	return "", fs.ErrNotExist
}

// hasKey reports whether there is a key. One in the keyring is taken for granted.
func (a *app) hasKey(p config.Provider) bool {
	return a.keyPlace(p).item != nil || a.keyOf(p) != ""
}

// storedKeyFile is where "agentd login" keeps the key of a provider: in the folder of
// the user's own key, which no tool can see. It is empty if the user has no home.
func (a *app) storedKeyFile(provider string) string { return a.keyFile("keys", provider) }

// keyFile is a file about the key of a provider in a folder of the user's state.
func (a *app) keyFile(folder, provider string) string {
	state := a.keeper().Folder()
	if state == "" || provider == "" || strings.ContainsAny(provider, `/\`+"\x00") || strings.HasPrefix(provider, ".") {
		return ""
	}
	return filepath.Join(state, folder, provider)
}

// fromHomeOf resolves a path that may begin with the user's home.
func (a *app) fromHomeOf(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && a.env["HOME"] != "" {
		return filepath.Join(a.env["HOME"], rest)
	}
	return path
}

var errKeyReadable = errors.New("other users can read it; chmod 600 it")

// readKey reads a file with a key, which only its owner may read.
func readKey(path string) (string, error) {
	if path == "" {
		return "", fs.ErrNotExist
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !datadir.OnlyMine(info) {
		return "", errKeyReadable
	}
	data, err := readBounded(path, maxCredential)
	if err != nil {
		return "", err
	}
	return cleanKey(string(data))
}

// cleanKey returns a key as it is sent, or why it is none.
func cleanKey(text string) (string, error) {
	key := strings.TrimSpace(text)
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", errNoToken
	}
	return key, nil
}

// keyHint says how the key of a provider is given.
func keyHint(p config.Provider) string {
	login := fmt.Sprintf("run \"agentd login %s\"", p.ID)
	switch env := keyEnv(p); {
	case p.APIKeyFile != "":
		return "put it into " + p.APIKeyFile
	case p.APIKeyKeyring != "":
		return login
	case env != "":
		return "set " + env + ", or " + login
	}
	return login
}

// noModel says that there is no model at all, and how to get one; noModelAdvice also how to
// do without, where a turn's model can be chosen.
const (
	noModel       = `no model is configured: "agentd init" sets one up; or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY; to try agentd without one, `
	noModelAdvice = noModel + "ask for the built-in provider with --model script/script"
)

var errNoModel = usagef("%s", noModelAdvice)

// modelMissing returns what is wrong with having a turn carried out here by a model, the
// configured default if it is empty; nil if nothing is known to be. Servers that others
// started know their own models.
func (a *app) modelMissing(c *config.Config, model string) error {
	if a.server != "" {
		return nil
	}
	if err := a.vendorKeyMissing(c, model); err != nil {
		return err
	}
	if model != "" || !a.ownServer(c) || !a.onlyBuiltIn(c) {
		return nil
	}
	if c.Data == "" {
		return errNoHome
	}
	if n, err := readNote(c.Local()); err == nil && n != nil && !n.Background {
		return nil
	}
	return errNoModel
}

// onlyBuiltIn reports whether no provider is configured and no key is there.
func (a *app) onlyBuiltIn(c *config.Config) bool {
	return len(c.Providers) == 0 && slices.ContainsFunc(a.providersOf(c), func(p config.Provider) bool { return p.ID == builtIn })
}

// vendorKeyMissing says which key is missing for a model of a vendor that would be
// configured by its key alone.
func (a *app) vendorKeyMissing(c *config.Config, model string) error {
	provider, _, named := strings.Cut(model, "/")
	if !named || len(c.Providers) > 0 {
		return nil
	}
	for _, u := range usual {
		p := config.Provider{ID: u.id, Kind: u.kind, APIKeyEnv: u.env}
		if u.id == provider && !a.hasKey(p) {
			return usagef("--model %s: the key of %s is missing: %s", model, u.id, keyHint(p))
		}
	}
	return nil
}
