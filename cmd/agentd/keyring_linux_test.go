package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/cmd/agentd/internal/keyring/keyringtest"
)

// ringed is a user with a provider that wants a key, and a session bus with a keyring.
type ringed struct {
	*person
	bus     *keyringtest.Bus
	service *keyringtest.Service
}

func newRinged(t *testing.T, provider string) *ringed {
	t.Helper()
	bus := keyringtest.StartBus(t)
	r := &ringed{person: newcomer(t), bus: bus, service: bus.Offer(t)}
	url, _ := keyedProvider(t, true)
	if err := os.MkdirAll(filepath.Join(r.home, ".config", "agentd"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(r.home, ".config", "agentd"), "config.yaml", "providers: [{id: mine, kind: openai, baseURL: "+url+", models: [{id: small}]"+provider+"}]\n")
	return r
}

// at is a command with a bus; none if the address is empty.
func (r *ringed) at(address string, args ...string) *exec.Cmd {
	r.Helper()
	cmd := r.command(args...)
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+filepath.Join(r.home, ".local", "state"))
	if address != "" {
		cmd.Env = append(cmd.Env, "DBUS_SESSION_BUS_ADDRESS="+address)
	}
	return cmd
}

// says runs a command, which must end with a code, write a text and never a key.
func (r *ringed) says(code int, text string, cmd *exec.Cmd) {
	r.Helper()
	out, _ := cmd.CombinedOutput() // the exit code says it
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), text) || strings.Contains(string(out), "sk-") {
		r.Errorf("%v: exit code %d, want %d and %q:\n%s", cmd.Args[1:], got, code, text, out)
	}
}

// logsIn stores the key of the provider.
func (r *ringed) logsIn(args ...string) {
	r.Helper()
	cmd := r.at(r.bus.Address(), append([]string{"login"}, args...)...)
	cmd.Stdin = strings.NewReader(goodKey + "\n")
	r.says(0, "The key of mine is stored in ", cmd)
}

// keyFiles are the files that have the key.
func (r *ringed) keyFiles() []string {
	r.Helper()
	var found []string
	err := filepath.WalkDir(r.home, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // files of a running server come and go
		}
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), goodKey) {
			found = append(found, strings.TrimPrefix(path, r.home))
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return found
}

func TestKeyInTheKeyring(t *testing.T) {
	r := newRinged(t, "")
	with := r.bus.Address()
	r.logsIn("--store", "keyring")
	if r.service.Secret("agentd", "mine") != goodKey {
		t.Error("the key isn't in the keyring")
	}
	r.says(0, "its key is in the system's keyring, as agentd/mine", r.at(with, "doctor"))
	r.says(0, "ok", r.at(with, "run", "hello"))
	if files := r.keyFiles(); len(files) != 0 {
		t.Errorf("the key is in %v", files)
	}

	// A server that was started without a bus says what it lacks, and is replaced from
	// where the keyring can be read.
	r.says(0, "running", r.at("", "daemon", "restart"))
	r.says(1, "the key of mine is in the system's keyring, which can't be reached from here", r.at("", "run", "hello"))
	r.says(0, "which can't be reached from here", r.at("", "doctor"))
	r.says(0, "ok", r.at(with, "run", "hello"))
	starts := r.starts()
	r.says(0, "ok", r.at("", "run", "hello"))
	r.says(0, "ok", r.at(with, "run", "hello"))
	if n := r.starts(); n != starts {
		t.Errorf("%d servers were started, want %d", n, starts)
	}

	// A locked keyring is no reason to ask anyone but the user who unlocks it.
	r.service.Behave(keyringtest.Behaviour{Locked: true})
	r.says(0, "ok", r.at(with, "run", "hello")) // the server has it
	r.says(0, "running", r.at(with, "daemon", "restart"))
	r.says(1, `which is locked; unlock it, for example with "agentd login --unlock"`, r.at(with, "run", "hello"))
	r.says(0, "which is locked", r.at(with, "doctor"))
	if r.service.Prompts() != 0 {
		t.Error("someone was asked")
	}
	r.says(0, "The system's keyring is unlocked.", r.at(with, "login", "--unlock"))
	r.says(0, "ok", r.at(with, "run", "hello"))

	// Another key counts at once, as does its place.
	starts = r.starts()
	r.logsIn("--store", "keyring")
	r.says(0, "ok", r.at(with, "run", "hello"))
	if n := r.starts(); n != starts+1 {
		t.Errorf("%d servers were started, want %d", n, starts+1)
	}
	r.says(1, "is still there", r.at("", "logout"))
	r.says(0, "The key of mine is removed.", r.at(with, "logout"))
	r.says(0, "No key of mine is stored.", r.at(with, "logout"))
	if r.service.Secret("agentd", "mine") != "" {
		t.Error("the key is still in the keyring")
	}
	r.logsIn("--store", "keyring")
	r.logsIn("--store", "file")
	if files := r.keyFiles(); len(files) != 1 || r.service.Secret("agentd", "mine") != "" {
		t.Errorf("the key is in %v", files)
	}
	r.logsIn("--store", "keyring")
	if files := r.keyFiles(); len(files) != 0 {
		t.Errorf("the key is in %v", files)
	}
}

// The configuration names an item that another program made.
func TestKeyringReference(t *testing.T) {
	r := newRinged(t, ", apiKeyKeyring: work/key of mine")
	with := r.bus.Address()
	r.says(0, "the key of mine is expected in the system's keyring as work/key of mine, where none is", r.at(with, "doctor"))
	r.says(1, "where none is", r.at(with, "run", "hello"))
	r.service.Put("work", "key of mine", goodKey)
	r.says(0, "ok", r.at(with, "run", "hello"))
	r.says(0, "No key of mine is stored.", r.at(with, "logout")) // it is another program's
	file := r.at(with, "login", "--store", "file")
	file.Stdin = strings.NewReader(goodKey + "\n")
	r.says(2, "apiKeyKeyring of provider mine says that its key is in the keyring", file)
	r.logsIn()
	if r.service.Secret("work", "key of mine") != goodKey {
		t.Error("another item was written")
	}
	// What "init" writes is what was named.
	url, _ := keyedProvider(t, true)
	initialize := []string{"init", "--force", "--provider", "mine", "--base-url", url, "--model", "small", "--key-keyring"}
	r.says(1, "where none is", r.at(with, append(initialize, "work/other")...))
	r.says(0, "Written", r.at(with, append(initialize, "work/key of mine")...))
	r.says(0, "ok", r.at(with, "run", "hello"))
	if text := r.written(".config", "agentd", "config.yaml"); !strings.Contains(text, "apiKeyKeyring: work/key of mine") || strings.Contains(text, "sk-") {
		t.Error(text)
	}
	r.says(2, "--key-keyring and --store can't be used together", r.at(with, append(initialize, "x", "--store", "file")...))
	r.says(2, "is not the name of an item", r.at(with, append(initialize, "/")...))
}

func TestKeyringRefuses(t *testing.T) {
	r := newRinged(t, "")
	login := func(code int, text string) {
		t.Helper()
		cmd := r.at(r.bus.Address(), "login", "--store", "keyring")
		cmd.Stdin = strings.NewReader(goodKey + "\n")
		r.says(code, text, cmd)
	}
	for _, tt := range []struct {
		does keyringtest.Behaviour
		text string
	}{
		{keyringtest.Behaviour{Refuse: true}, "the keyring refused"},
		{keyringtest.Behaviour{Locked: true, Dismiss: true}, "the question was dismissed"},
		{keyringtest.Behaviour{NoDefault: true}, "has no default keyring yet"},
	} {
		r.service.Behave(tt.does)
		login(1, tt.text)
	}
	r.bus.Stop()
	login(1, `no session bus can be reached`)
	login(1, `"--store file" keeps it in a file`)
	r.says(1, "the system's keyring: there is no keyring", r.at(r.bus.Address(), "login", "--unlock"))
	r.says(2, `"cloud" is not one of`, r.at(r.bus.Address(), "login", "--store", "cloud"))
	r.says(2, "leave mine out", r.at(r.bus.Address(), "login", "--unlock", "mine"))
	if files := r.keyFiles(); len(files) != 0 {
		t.Errorf("the key is in %v", files)
	}
}

// At a terminal whoever has a keyring is asked where the key goes.
func TestLoginAsksWhere(t *testing.T) {
	r := newRinged(t, "")
	login := func(answer, stored string) {
		t.Helper()
		c := atTerminal(t, 200, 30, r.at(r.bus.Address(), "login"))
		c.see("Key of mine")
		c.typing(goodKey + "\r")
		c.see("Where to keep it: keyring (of the system), file (that only you can read) [keyring]")
		c.typing(answer + "\r")
		c.see("The key of mine is stored in " + stored)
		if code := c.end(); code != 0 || strings.Contains(c.screen.Text(), "sk-") {
			t.Errorf("exit code %d", code)
		}
	}
	login("", "the system's keyring, as agentd/mine")
	login("file", r.home)
	if r.service.Secret("agentd", "mine") != "" {
		t.Error("the key is in both places")
	}
	// Without a keyring nobody is asked, and one that hangs isn't waited for.
	r.service.Behave(keyringtest.Behaviour{Silent: true})
	c := atTerminal(t, 200, 30, r.at(r.bus.Address(), "login"), hurry)
	c.see("Key of mine")
	c.typing(goodKey + "\r")
	c.see("The key of mine is stored in " + r.home)
	if code := c.end(); code != 0 || strings.Contains(c.screen.Text(), "Where to keep it") {
		t.Errorf("exit code %d", code)
	}
}
