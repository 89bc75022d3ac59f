package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/keyring"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/model"
)

// Where "agentd login" keeps a key.
const (
	storeFile    = "file"
	storeKeyring = "keyring"
)

// storeChoices are the values of --store.
var storeChoices = []string{storeFile, storeKeyring}

func (a *app) loginCommand() *cobra.Command {
	var unchecked, unlock bool
	var store string
	cmd := &cobra.Command{
		Use:   "login [PROVIDER]",
		Short: "Store the key of a model provider",
		Long: `Reads the key of a provider, at a terminal without showing it, else one line of
standard input, checks it with one call and stores it in one of two places:

  file     a file that only you can read (mode 0600), in
           $XDG_STATE_HOME/agentd/keys or ~/.local/state/agentd/keys
  keyring  the keyring of the system: the Secret Service of the desktop
           (GNOME Keyring, KWallet, KeePassXC), the keychain of macOS or the
           Credential Manager of Windows, as "agentd/PROVIDER" or what
           apiKeyKeyring names

No tool can see either. Without --store you are asked at a terminal where a
keyring can be reached; else it is the file.

PROVIDER is anthropic, openai or gemini, or the id of a provider of the
configuration; it may be left out if there is one alone. A variable or a file
that the configuration names wins over the stored key.

Exit codes: 0 stored, 1 the provider refused the key or can't be reached, or the
keyring can't be used, 2 usage.`,
		Example: "  agentd login anthropic\n  agentd login openai < key.txt\n  agentd login --store keyring anthropic\n  agentd login --no-check local\n  agentd login --unlock",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if unlock {
				return a.loginUnlock(cmd.Context(), given)
			}
			loaded, err := a.loadOnly(cmd)
			if err != nil {
				return err
			}
			p, err := a.keyProvider(loaded.Config, given)
			if err != nil {
				return err
			}
			place, err := a.login(cmd.Context(), p, store, !unchecked)
			if err != nil {
				return err
			}
			return a.print(place.answer(p.ID, !unchecked), func(out *printer) {
				out.linef("The key of %s is stored in %s.", p.ID, place)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&unchecked, "no-check", false, "store the key without a call to the provider")
	f.StringVar(&store, "store", "", "where to store the key: "+strings.Join(storeChoices, ", "))
	f.BoolVar(&unlock, "unlock", false, "only have the system ask you to unlock its keyring")
	cmd.MarkFlagsMutuallyExclusive("unlock", "store")
	cmd.MarkFlagsMutuallyExclusive("unlock", "no-check")
	return a.settings(cmd)
}

// loginUnlock unlocks the keyring and nothing else.
func (a *app) loginUnlock(ctx context.Context, given []string) error {
	if len(given) > 0 {
		return usagef("--unlock is about the whole keyring; leave %s out", given[0])
	}
	if err := a.unlockKeyring(ctx); err != nil {
		return err
	}
	return a.print(map[string]any{"unlocked": true}, func(out *printer) { out.linef("The system's keyring is unlocked.") })
}

func (a *app) logoutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logout [PROVIDER]",
		Short: "Remove the stored key of a model provider",
		Long: `Removes the key that "agentd login" stored, from its file or from the system's
keyring. Keys in variables, in other files and in other items of the keyring
stay. Your server forgets it when it is next started: "agentd daemon restart".

Exit codes: 0 removed, or there was none, 1 the keyring can't be used, 2 usage.`,
		Example: "  agentd logout anthropic",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			loaded, err := a.loadOnly(cmd)
			if err != nil {
				return err
			}
			p, err := a.keyProvider(loaded.Config, given)
			if err != nil {
				return err
			}
			err = os.Remove(a.storedKeyFile(p.ID))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			removed := err == nil
			ringed, err := a.removeFromKeyring(cmd.Context(), p)
			if err != nil {
				return err
			}
			removed = removed || ringed
			return a.print(map[string]any{"provider": p.ID, "removed": removed}, func(out *printer) {
				if removed {
					out.linef("The key of %s is removed.", p.ID)
				} else {
					out.linef("No key of %s is stored.", p.ID)
				}
			})
		},
	}
	return a.settings(cmd)
}

// storedPlace is where a key was stored.
type storedPlace struct{ file, item string }

func (s storedPlace) String() string {
	if s.item != "" {
		return "the system's keyring, as " + s.item
	}
	return s.file
}

func (s storedPlace) answer(provider string, checked bool) map[string]any {
	answer := map[string]any{"provider": provider, "store": storeFile, "checked": checked}
	if s.item != "" {
		answer["store"], answer["item"] = storeKeyring, s.item
	} else {
		answer["file"] = s.file
	}
	return answer
}

// keyProvider returns the provider that a command about a key means.
func (a *app) keyProvider(c *config.Config, given []string) (config.Provider, error) {
	known := map[string]config.Provider{}
	var ids, vendors []string
	for _, p := range c.Providers {
		if p.Kind != config.KindScript {
			known[p.ID] = p
			ids = append(ids, p.ID)
		}
	}
	for _, u := range usual {
		if _, ok := known[u.id]; !ok {
			known[u.id] = config.Provider{ID: u.id, Kind: u.kind, APIKeyEnv: u.env}
			vendors = append(vendors, u.id)
		}
	}
	if len(ids) == 0 { // no configured provider has a key
		ids = vendors
	}
	id := strings.Join(given, "")
	if id == "" && len(ids) == 1 {
		id = ids[0]
	}
	p, ok := known[id]
	switch {
	case id == "":
		return p, usagef("PROVIDER is missing; use one of %s", strings.Join(ids, ", "))
	case !ok:
		return p, usagef("unknown provider %q; use one of %s", id, strings.Join(ids, ", "))
	case a.storedKeyFile(id) == "":
		return p, usagef("there is no place for the key of %q: neither HOME nor XDG_STATE_HOME is set, or the id can't be the name of a file", id)
	}
	return p, nil
}

// login reads, checks and stores a key.
func (a *app) login(ctx context.Context, p config.Provider, store string, check bool) (storedPlace, error) {
	if err := checkStore(p, store); err != nil {
		return storedPlace{}, err
	}
	key, err := a.readSecret(ctx, fmt.Sprintf("Key of %s (it is not shown): ", p.ID))
	if err != nil {
		return storedPlace{}, err
	}
	if check {
		if err := a.checkKey(ctx, p, key); err != nil {
			return storedPlace{}, err
		}
	}
	return a.storeKey(ctx, p, key, store)
}

// checkStore rejects a place that isn't there, or that the configuration contradicts.
func checkStore(p config.Provider, store string) error {
	switch {
	case store != "" && !slices.Contains(storeChoices, store):
		return usagef("unknown place %q for --store; use one of %s", store, strings.Join(storeChoices, ", "))
	case store == storeFile && p.APIKeyKeyring != "":
		return usagef("--store file: apiKeyKeyring of provider %s says that its key is in the keyring; take it out of the configuration first", p.ID)
	}
	return nil
}

// storeKey keeps a key where it is to be.
func (a *app) storeKey(ctx context.Context, p config.Provider, key, store string) (storedPlace, error) {
	store, err := a.chooseStore(ctx, p, store)
	if err != nil {
		return storedPlace{}, err
	}
	if store == storeKeyring {
		return storedPlace{item: itemOf(p).String()}, a.storeInKeyring(ctx, p, key)
	}
	path, err := a.storeKeyFile(p.ID, key)
	if err != nil {
		return storedPlace{}, err
	}
	if _, err := a.removeFromKeyring(ctx, p); err != nil {
		a.sayf("agentd: warning: the key that was stored before: %v", err)
		// The file counts.
		if err := os.Remove(a.keyFile(storeKeyring, p.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storedPlace{}, err
		}
	}
	return storedPlace{file: path}, nil
}

// reachWithin is how long it may take to find out whether there is a keyring.
var reachWithin = 2 * time.Second

// chooseStore asks where to keep a key, if no one has said so and there is a choice.
func (a *app) chooseStore(ctx context.Context, p config.Provider, store string) (string, error) {
	switch {
	case store != "":
		return store, nil
	case p.APIKeyKeyring != "":
		return storeKeyring, nil
	case a.json || !terminal.IsTerminal(a.in) || !terminal.IsTerminal(a.out):
		return storeFile, nil
	}
	reach, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if keyring.System(a.getenv).Reach(reach) != nil {
		return storeFile, nil
	}
	err := a.askUntil(ctx, "Where to keep it: keyring (of the system), file (that only you can read)", storeKeyring, &store, func() error { return checkStore(p, store) }, strings.Join(storeChoices, ", "))
	return store, err
}

// readSecret reads one line that isn't shown.
func (a *app) readSecret(ctx context.Context, prompt string) (string, error) {
	var text string
	if f, ok := a.in.(*os.File); ok && terminal.IsTerminal(a.in) {
		data, err := readHidden(ctx, f, func() { _, _ = fmt.Fprint(a.err, prompt) })
		_, _ = fmt.Fprintln(a.err)
		if err != nil {
			return "", err
		}
		text = string(data)
	} else {
		if a.in == nil {
			return "", usagef("the key is missing on standard input")
		}
		line, err := bufio.NewReader(io.LimitReader(a.input(ctx), maxCredential)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the key: %w", err)
		}
		text = line
	}
	if strings.TrimSpace(text) == "" {
		return "", &exitError{exitUsage, errNoKey}
	}
	key, err := cleanKey(text)
	if err != nil {
		return "", usagef("the key is missing, or has characters that no key has: expected one line of visible characters")
	}
	return key, nil
}

// readHidden reads a line of a terminal that shows nothing of it. Who leaves in the middle
// has the terminal back as it was.
func readHidden(ctx context.Context, f *os.File, ask func()) (line []byte, err error) {
	shown, err := term.MakeRaw(f.Fd())
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(f.Fd(), shown)) }()
	ask()
	return untilDone(ctx, func() ([]byte, error) { return readRaw(f) })
}

// readRaw reads a line from a terminal that passes every key on.
func readRaw(r io.Reader) (line []byte, err error) {
	for key := make([]byte, 1); ; {
		if _, err := r.Read(key); err != nil {
			return nil, errNothingWritten
		}
		switch k := key[0]; {
		case k == '\r' || k == '\n':
			return line, nil
		case k == 3 || k == 4 && len(line) == 0: // Ctrl-C, Ctrl-D
			return nil, errNothingWritten
		case k == 8 || k == 127: // Backspace
			line = line[:max(0, len(line)-1)]
		case k == 21: // Ctrl-U
			line = line[:0]
		case len(line) == maxCredential:
			return nil, usagef("the key is longer than any key is")
		default:
			line = append(line, k)
		}
	}
}

// errNoKey says that nothing was given for a key.
var errNoKey = errors.New("the key is missing: expected one line of visible characters")

// refusedKeyError says that a provider refused a key.
type refusedKeyError struct{ provider, message string }

func (e *refusedKeyError) Error() string { return e.provider + " refused the key: " + e.message }

// storeKeyFile keeps a key in a file, whole or not at all.
func (a *app) storeKeyFile(provider, key string) (string, error) {
	path := a.storedKeyFile(provider)
	if path == "" {
		return "", errNoHome
	}
	if err := writePrivate(path, key+"\n"); err != nil {
		return "", fmt.Errorf("store the key: %w", err)
	}
	return path, nil
}

// checkWithin is how long the call that checks a key may take.
const checkWithin = 30 * time.Second

// checkKey makes the smallest call that a provider answers.
func (a *app) checkKey(ctx context.Context, p config.Provider, key string) error {
	provider, err := newProvider(p, key)
	if err != nil {
		return err
	}
	models := modelsOf(p, key)
	if len(models) == 0 {
		return usagef("provider %s has no model to check the key with; list its models in the configuration, or use --no-check", p.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	request := &model.Request{
		Model: models[0].Model, MaxOutputTokens: 16,
		Messages: []*model.Message{{Role: model.RoleUser, Text: "Answer with the word ok."}},
	}
	for _, err := range provider.Stream(ctx, request) {
		if err == nil {
			return nil // it answers, so the key is one
		}
		if failed, ok := errors.AsType[*model.Error](err); ok && failed.Category == model.Auth {
			return &refusedKeyError{p.ID, failed.Message}
		}
		if failed, ok := errors.AsType[*model.Error](err); ok {
			err = errors.New(failed.Message)
		}
		return fmt.Errorf("the key of %s could not be checked: %w; --no-check leaves the check out", p.ID, err)
	}
	return fmt.Errorf("the key of %s could not be checked: the provider sent no answer; --no-check leaves the check out", p.ID)
}
