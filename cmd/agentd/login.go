package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/model"
)

func (a *app) loginCommand() *cobra.Command {
	var unchecked bool
	cmd := &cobra.Command{
		Use:   "login [PROVIDER]",
		Short: "Store the key of a model provider",
		Long: `Reads the key of a provider, at a terminal without showing it, else one line of
standard input, checks it with one call and stores it in a file that only you can
read (mode 0600, in $XDG_STATE_HOME/agentd/keys or ~/.local/state/agentd/keys),
which no tool can see. The keyring of the system is not used.

PROVIDER is anthropic, openai or gemini, or the id of a provider of the
configuration; it may be left out if there is one alone. A variable or a file
that the configuration names wins over the stored key.

Exit codes: 0 stored, 1 the provider refused the key or can't be reached, 2 usage.`,
		Example: "  agentd login anthropic\n  agentd login openai < key.txt\n  agentd login --no-check local",
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
			path, err := a.login(cmd.Context(), p, !unchecked)
			if err != nil {
				return err
			}
			return a.print(map[string]any{"provider": p.ID, "file": path, "checked": !unchecked}, func(out *printer) {
				out.linef("The key of %s is stored in %s.", p.ID, path)
			})
		},
	}
	cmd.Flags().BoolVar(&unchecked, "no-check", false, "store the key without a call to the provider")
	return a.settings(cmd)
}

func (a *app) logoutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logout [PROVIDER]",
		Short: "Remove the stored key of a model provider",
		Long: `Removes the key that "agentd login" stored. Keys in variables and other files
stay. Your server forgets it when it is next started: "agentd daemon restart".

Exit codes: 0 removed, or there was none, 2 usage.`,
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
			path := a.storedKeyFile(p.ID)
			err = os.Remove(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			removed := err == nil
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

// keyProvider returns the provider that a command about a key means.
func (a *app) keyProvider(c *config.Config, given []string) (config.Provider, error) {
	known := map[string]config.Provider{}
	var ids []string
	for _, p := range c.Providers {
		if p.Kind != config.KindScript {
			known[p.ID] = p
			ids = append(ids, p.ID)
		}
	}
	for _, u := range usual {
		if _, ok := known[u.id]; !ok {
			known[u.id] = config.Provider{ID: u.id, Kind: u.kind, APIKeyEnv: u.env}
			if len(c.Providers) == 0 {
				ids = append(ids, u.id)
			}
		}
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

// login reads, checks and stores a key, and returns the file.
func (a *app) login(ctx context.Context, p config.Provider, check bool) (string, error) {
	key, err := a.readSecret(ctx, fmt.Sprintf("Key of %s (it is not shown): ", p.ID))
	if err != nil {
		return "", err
	}
	if check {
		if err := a.checkKey(ctx, p, key); err != nil {
			return "", err
		}
	}
	return a.storeKey(p.ID, key)
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

// storeKey keeps a key, whole or not at all.
func (a *app) storeKey(provider, key string) (string, error) {
	path := a.storedKeyFile(provider)
	if path == "" {
		return "", errNoHome
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("store the key: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key.*") // with mode 0600
	if err != nil {
		return "", fmt.Errorf("store the key: %w", err)
	}
	_, err = f.WriteString(key + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("store the key: %w", errors.Join(err, os.Remove(f.Name())))
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
		return fmt.Errorf("the key of %s could not be checked: %w; --no-check leaves the check out", p.ID, err)
	}
	return fmt.Errorf("the key of %s could not be checked: the provider sent no answer; --no-check leaves the check out", p.ID)
}
