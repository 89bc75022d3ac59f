package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/keyring"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/model"
	"agentd/permission"
)

// initFlags are the answers that "init" needn't ask for.
type initFlags struct {
	provider, model, mode, baseURL  string
	keyEnv, keyFile, keyItem, store string
	unchecked, force                bool
}

func (a *app) initCommand() *cobra.Command {
	o := &initFlags{}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Set up a model provider and a permission mode",
		Long: `Asks for a model provider, its key and a permission mode, checks the key with
one call, and writes your configuration ($XDG_CONFIG_HOME/agentd/config.yaml, or
else ~/.config/agentd/config.yaml). The key is never written there: it stays in
the variable, the file or the item of the keyring that you name, or is stored as
"agentd login" does.

Without a terminal, flags answer; a key that is in no variable and no file is
read from standard input. --provider is anthropic, openai, gemini, script (the
built-in provider, which needs no key), or with --base-url any name for a server
that speaks OpenAI's protocol, whose model --model names.

Exit codes: 0 written, 1 the provider refused the key or can't be reached, 2
usage, also if there is a file already and --force isn't given.`,
		Example: `  agentd init
  agentd init --provider anthropic --key-env ANTHROPIC_API_KEY --mode auto
  agentd init --provider local --base-url http://127.0.0.1:11434/v1 --model qwen3:8b --no-check
  agentd init --provider script`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.init(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.provider, "provider", "", "anthropic, openai, gemini, script, or a name for --base-url")
	f.StringVar(&o.model, "model", "", "the model that answers if a turn names none; default: the provider's first")
	f.StringVar(&o.mode, "mode", "", "permission mode (default default): "+strings.Join(permission.Modes(), ", "))
	f.StringVar(&o.baseURL, "base-url", "", "address of a server that speaks OpenAI's protocol, such as http://127.0.0.1:11434/v1")
	f.StringVar(&o.keyEnv, "key-env", "", "variable that holds the key")
	f.StringVar(&o.keyFile, "key-file", "", "file that holds the key, with mode 0600")
	f.StringVar(&o.keyItem, "key-keyring", "", "item of the system's keyring that holds the key: ACCOUNT or SERVICE/ACCOUNT")
	f.StringVar(&o.store, "store", "", "where to store a key that is nowhere yet: "+strings.Join(storeChoices, ", "))
	f.BoolVar(&o.unchecked, "no-check", false, "don't call the provider")
	f.BoolVar(&o.force, "force", false, "replace the file that is there")
	return cmd
}

func (a *app) init(ctx context.Context, o *initFlags) error {
	path := config.UserFile(a.getenv)
	if path == "" {
		return usagef("neither HOME nor XDG_CONFIG_HOME is set, so there is no place for your configuration")
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) && !o.force {
		return usagef("%s is there already; edit it, or replace it with --force", path)
	}
	if err := a.askInit(ctx, o); err != nil {
		return err
	}
	p, err := o.providerOf()
	if err != nil {
		return err
	}
	stored, err := a.initKey(ctx, o, &p)
	if err != nil {
		return err
	}
	text, err := o.file(p)
	if err != nil {
		return err
	}
	if err := writeUserFile(path, text); err != nil {
		return err
	}
	return a.print(map[string]any{"file": path, "provider": p.ID, "keyStored": stored != storedPlace{}, "checked": !o.unchecked && p.Kind != config.KindScript}, func(out *printer) {
		out.linef("Written: %s", path)
		switch {
		case stored.item != "":
			out.linef("The key is stored in %s.", stored)
		case stored.file != "":
			out.linef("The key is stored in %s, which only you can read.", stored)
		}
		out.linef("Next: agentd chat, or agentd run \"what does this repository do?\"")
	})
}

// askInit asks for what no flag answers.
func (a *app) askInit(ctx context.Context, o *initFlags) error {
	asks := terminal.IsTerminal(a.in) && terminal.IsTerminal(a.out) && !a.json
	if o.provider == "" && !asks {
		return usagef("--provider is missing; use anthropic, openai, gemini, script, or a name with --base-url and --model")
	}
	if o.mode == "" && !asks {
		o.mode = permission.ModeDefault
	}
	for _, q := range []struct {
		wanted              bool
		question, otherwise string
		into                *string
		check               func() error
		expects             string
	}{
		{true, "Provider: anthropic, openai, gemini, local (a server with OpenAI's protocol), script", "anthropic", &o.provider, o.checkProvider, "anthropic, openai, gemini, local or script"},
		{true, "Its address", "http://127.0.0.1:11434/v1", &o.baseURL, o.checkAddress, "an absolute http or https address"},
		{true, "Its model", "qwen3:8b", &o.model, func() error { return nil }, ""},
		{true, "Permission mode: default (reads run, the rest asks), auto (the sandbox is the boundary), plan (reads only)", permission.ModeDefault, &o.mode, o.checkMode, strings.Join(permission.Modes(), ", ")},
	} {
		switch q.into {
		case &o.baseURL:
			q.wanted = o.provider == "local"
		case &o.model:
			q.wanted = o.baseURL != ""
		}
		if asks && q.wanted && *q.into == "" {
			if err := a.askUntil(ctx, q.question, q.otherwise, q.into, q.check, q.expects); err != nil {
				return err
			}
		}
	}
	return o.checkMode()
}

// askUntil asks until an answer passes a check, and says what it expects of one that
// doesn't: the error of the check names a flag, which was not typed here.
func (a *app) askUntil(ctx context.Context, question, otherwise string, into *string, check func() error, expects string) error {
	cols := terminal.Width(a.out)
	for {
		_, _ = fmt.Fprint(a.out, terminal.Sentences(fmt.Sprintf("%s [%s] ", question, otherwise), cols)) // if it can't be written, reading fails too
		line, err := untilDone(ctx, func() (string, error) { return readLine(a.in) })
		if err != nil {
			_, _ = fmt.Fprintln(a.out)
			return errNothingWritten
		}
		if *into = strings.TrimSpace(line); *into == "" {
			*into = otherwise
		}
		if check() == nil {
			return nil
		}
		_, _ = fmt.Fprintln(a.out, terminal.Sentences(fmt.Sprintf("%q can't be used; expected: %s", terminal.Plain(*into), expects), cols)) // the same
	}
}

// errNothingWritten says that someone left before the end.
var errNothingWritten = errors.New("nothing was written")

// untilDone does something that can't be interrupted, such as reading from a terminal,
// and stops waiting for it when ctx ends.
func untilDone[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// checkProvider refuses a provider that isn't known and has no address.
func (o *initFlags) checkProvider() error {
	known := []string{builtIn, "local"}
	for _, u := range usual {
		known = append(known, u.id)
	}
	if o.baseURL != "" || slices.Contains(known, o.provider) {
		return nil
	}
	return usagef("unknown provider %q for --provider; use anthropic, openai, gemini or script, or name its address with --base-url", o.provider)
}

// checkAddress refuses what is no address of a server.
func (o *initFlags) checkAddress() error {
	if u, err := url.Parse(o.baseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usagef("--base-url must be an absolute http or https address")
	}
	return nil
}

// checkMode refuses a permission mode that there isn't.
func (o *initFlags) checkMode() error {
	if !slices.Contains(permission.Modes(), o.mode) {
		return usagef("unknown mode %q for --mode; use one of %s", o.mode, strings.Join(permission.Modes(), ", "))
	}
	return nil
}

// readLine reads one line and nothing behind it, which may be a key that is read in
// another way.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := r.Read(b)
		if n == 1 && b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[:n]...)
		if err != nil {
			return "", err
		}
	}
}

// providerOf returns the provider that the answers describe.
func (o *initFlags) providerOf() (config.Provider, error) {
	p := config.Provider{ID: o.provider, APIKeyEnv: o.keyEnv, APIKeyFile: o.keyFile, APIKeyKeyring: o.keyItem, BaseURL: o.baseURL}
	if err := o.checkKeyFlags(); err != nil {
		return p, err
	}
	for _, u := range usual {
		if u.id == o.provider {
			p.Kind = u.kind
			if p.APIKeyEnv == "" && p.APIKeyFile == "" && p.APIKeyKeyring == "" && p.BaseURL == "" {
				p.APIKeyEnv = u.env
			}
		}
	}
	switch {
	case p.Kind != "":
	case o.provider == builtIn:
		p.Kind = config.KindScript
	case o.baseURL == "":
		return p, usagef("unknown provider %q for --provider; use anthropic, openai, gemini or script, or name its address with --base-url", o.provider)
	default:
		p.Kind = config.KindOpenAI
	}
	if o.baseURL != "" {
		if err := o.checkAddress(); err != nil {
			return p, err
		}
		if o.model == "" {
			return p, usagef("--model is missing: the models of %s are not known", o.baseURL)
		}
	}
	if o.model != "" {
		m := config.Model{ID: strings.TrimPrefix(o.model, p.ID+"/")}
		p.Models = []config.Model{m}
	}
	return p, nil
}

// checkKeyFlags rejects flags about the key that don't go together.
func (o *initFlags) checkKeyFlags() error {
	var given []string
	for _, f := range []struct{ name, value string }{{"--key-env", o.keyEnv}, {"--key-file", o.keyFile}, {"--key-keyring", o.keyItem}, {"--store", o.store}} {
		if f.value != "" {
			given = append(given, f.name)
		}
	}
	if len(given) > 1 {
		return usagef("%s can't be used together", strings.Join(given, " and "))
	}
	if o.keyItem != "" {
		if _, err := keyring.ParseItem(o.keyItem); err != nil {
			return usagef("--key-keyring: %w", err)
		}
	}
	return checkStore(config.Provider{}, o.store)
}

// initKey finds the key, checks it, and stores one that is nowhere yet.
func (a *app) initKey(ctx context.Context, o *initFlags, p *config.Provider) (stored storedPlace, err error) {
	if p.Kind == config.KindScript {
		return stored, nil
	}
	key, err := a.findKey(*p)
	switch {
	case err == nil:
	case o.keyEnv != "":
		return stored, usagef("--key-env: %s is not set", o.keyEnv)
	case o.keyFile != "":
		return stored, usagef("--key-file: %w", err)
	case o.keyItem != "":
		return stored, fmt.Errorf("--key-keyring: %s", keyringProblem(*p, err))
	case o.baseURL != "" && o.unchecked: // many local servers want none
		return stored, nil
	case o.baseURL != "" && !terminal.IsTerminal(a.in):
	default:
		return a.initTypedKey(ctx, o, p)
	}
	if !o.unchecked {
		if err := a.checkKey(ctx, *p, key); err != nil {
			return stored, err
		}
	}
	return stored, nil
}

// initTypedKey reads a key, checks and stores it. At a terminal one that the provider
// refuses is asked for again, and a server with an address of its own may want none.
func (a *app) initTypedKey(ctx context.Context, o *initFlags, p *config.Provider) (stored storedPlace, err error) {
	prompt := fmt.Sprintf("Key of %s (it is not shown): ", p.ID)
	optional := o.baseURL != ""
	if optional {
		prompt = fmt.Sprintf("Key of %s, if it wants one (it is not shown): ", p.ID)
	}
	for {
		key, err := a.readSecret(ctx, prompt)
		if err != nil && (!optional || !errors.Is(err, errNoKey)) {
			return stored, err
		}
		if !o.unchecked {
			err = a.checkKey(ctx, *p, key)
			var refused *refusedKeyError
			if errors.As(err, &refused) && terminal.IsTerminal(a.in) {
				a.sayf("%v", err)
				continue
			}
			if err != nil {
				return stored, err
			}
		}
		if key == "" {
			return stored, nil
		}
		return a.storeKey(ctx, *p, key, o.store)
	}
}

// file is the configuration that the answers describe.
func (o *initFlags) file(p config.Provider) (string, error) {
	provider := yaml.MapSlice{{Key: "id", Value: p.ID}, {Key: "kind", Value: p.Kind}}
	add := func(key, value string) {
		if value != "" {
			provider = append(provider, yaml.MapItem{Key: key, Value: value})
		}
	}
	add("baseURL", p.BaseURL)
	add("apiKeyEnv", p.APIKeyEnv)
	add("apiKeyFile", p.APIKeyFile)
	add("apiKeyKeyring", p.APIKeyKeyring)
	models := modelsOf(p, "")
	if len(models) == 0 {
		return "", usagef("--model is missing: no models of %s are known", p.ID)
	}
	listed := p
	listed.Models = nil
	if !slices.ContainsFunc(modelsOf(listed, ""), func(m model.Info) bool { return m.Model == models[0].Model }) {
		provider = append(provider, yaml.MapItem{Key: "models", Value: []yaml.MapSlice{{{Key: "id", Value: models[0].Model}}}})
	}
	doc := yaml.MapSlice{
		{Key: "providers", Value: []yaml.MapSlice{provider}},
		{Key: "routing", Value: yaml.MapSlice{{Key: "default", Value: models[0].ID()}}},
		{Key: "permissions", Value: yaml.MapSlice{{Key: "mode", Value: o.mode}}},
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return "", fmt.Errorf("configuration: %w", err)
	}
	return "# Written by \"agentd init\". Keys don't belong here: see apiKeyEnv, apiKeyFile, apiKeyKeyring and \"agentd login\".\n" + string(text), nil
}

// writeUserFile puts the user's configuration in place, whole or not at all.
func writeUserFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".config.*") // with mode 0600
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		if _, err = config.Load(config.Sources{File: f.Name()}); err == nil {
			err = os.Rename(f.Name(), path)
		}
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
