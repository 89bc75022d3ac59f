package keyring_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"agentd/cmd/agentd/internal/keyring"
	"agentd/cmd/agentd/internal/keyring/keyringtest"
)

var key = keyring.Item{Service: keyring.Service, Account: "anthropic"}

const value = "the value that nobody sees"

// soon ends while something that never answers is waited for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// over is a context whose time is over when its test says so.
type over struct {
	context.Context
	done chan struct{}
}

func (o *over) Done() <-chan struct{} { return o.done }

func (o *over) Err() error {
	select {
	case <-o.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// untilAsked ends as soon as someone was asked once more.
func untilAsked(t *testing.T, service *keyringtest.Service) context.Context {
	t.Helper()
	o := &over{t.Context(), make(chan struct{})}
	before := service.Prompts()
	go func() {
		for service.Prompts() == before && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		close(o.done)
	}()
	return o
}

// calls are all that a keyring can be asked for.
func calls(ctx context.Context, k *keyring.Keyring) map[string]error {
	_, read := k.Read(ctx, key)
	_, remove := k.Remove(ctx, key)
	return map[string]error{"reach": k.Reach(ctx), "read": read, "store": k.Store(ctx, key, value), "remove": remove, "unlock": k.Unlock(ctx)}
}

// holds drives a keyring that is unlocked.
func holds(t *testing.T, k *keyring.Keyring) {
	t.Helper()
	ctx := t.Context()
	if err := k.Reach(ctx); err != nil {
		t.Error(err)
	}
	if _, err := k.Read(ctx, key); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("nothing is stored: %v", err)
	}
	for _, text := range []string{"first", value} {
		if err := k.Store(ctx, key, text); err != nil {
			t.Error(err)
		}
		if got, err := k.Read(ctx, key); err != nil || got != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	other := keyring.Item{Service: "other", Account: key.Account}
	if err := k.Store(ctx, other, "other"); err != nil {
		t.Error(err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := k.Remove(ctx, key); err != nil || removed != want {
			t.Errorf("removed: %v, %v", removed, err)
		}
	}
	if _, err := k.Read(ctx, key); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("it is removed: %v", err)
	}
	if got, err := k.Read(ctx, other); err != nil || got != "other" {
		t.Errorf("the other item: %q, %v", got, err)
	}
}

func TestSecretService(t *testing.T) {
	bus := keyringtest.StartBus(t)
	service := bus.Offer(t)
	holds(t, keyring.System(bus.Getenv))
	if service.Prompts() != 0 {
		t.Error("someone was asked")
	}
}

func TestLockedKeyring(t *testing.T) {
	bus := keyringtest.StartBus(t)
	service := bus.Offer(t)
	service.Put(key.Service, key.Account, value)
	k, ctx := keyring.System(bus.Getenv), t.Context()

	service.Behave(keyringtest.Behaviour{Locked: true})
	for _, item := range []keyring.Item{key, {Service: "agentd", Account: "unknown"}} {
		if _, err := k.Read(ctx, item); !errors.Is(err, keyring.ErrLocked) {
			t.Errorf("%v: %v", item, err)
		}
	}
	if _, err := k.Remove(ctx, key); !errors.Is(err, keyring.ErrLocked) {
		t.Error(err)
	}
	if service.Prompts() != 0 {
		t.Error("someone was asked")
	}
	if err := k.Reach(ctx); err != nil {
		t.Errorf("it can be reached: %v", err)
	}

	service.Behave(keyringtest.Behaviour{Locked: true, Dismiss: true})
	for what, err := range map[string]error{"unlock": k.Unlock(ctx), "store": k.Store(ctx, key, "new")} {
		if !errors.Is(err, keyring.ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	service.Behave(keyringtest.Behaviour{Locked: true, Ignore: true})
	for what, err := range map[string]error{"unlock": k.Unlock(untilAsked(t, service)), "store": k.Store(untilAsked(t, service), key, "new")} {
		if !errors.Is(err, keyring.ErrSlow) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := service.Secret(key.Service, key.Account); got != value {
		t.Error("the value was changed")
	}

	service.Behave(keyringtest.Behaviour{Locked: true})
	if err := k.Store(ctx, key, "new"); err != nil {
		t.Error(err)
	}
	service.Behave(keyringtest.Behaviour{Locked: true})
	if err := k.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if _, err := k.Read(ctx, key); err != nil {
		t.Error(err)
	}
	if service.Prompts() != 6 {
		t.Errorf("asked %d times", service.Prompts())
	}
}

// Whatever is wrong with it, a keyring answers with a reason, in time, and without the
// secret.
func TestBadKeyrings(t *testing.T) {
	bus := keyringtest.StartBus(t)
	empty := keyringtest.StartBus(t)
	gone := keyringtest.StartBus(t)
	gone.Stop()
	service := bus.Offer(t)
	mute, err := net.Listen("unix", filepath.Join(bus.Dir, "mute"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	at := func(address string) func(string) string {
		return func(name string) string {
			if name == "DBUS_SESSION_BUS_ADDRESS" {
				return address
			}
			return ""
		}
	}
	for name, tt := range map[string]struct {
		getenv func(string) string
		does   keyringtest.Behaviour
		ctx    func(*testing.T) context.Context
		want   error
	}{
		"no bus":           {at("unix:path=" + bus.Dir + "/nothing"), keyringtest.Behaviour{}, (*testing.T).Context, keyring.ErrAbsent},
		"a bus that ended": {gone.Getenv, keyringtest.Behaviour{}, (*testing.T).Context, keyring.ErrAbsent},
		"another kind":     {at("tcp:host=127.0.0.1,port=1"), keyringtest.Behaviour{}, (*testing.T).Context, keyring.ErrAbsent},
		"nonsense":         {at("nonsense"), keyringtest.Behaviour{}, (*testing.T).Context, keyring.ErrAbsent},
		"no service":       {empty.Getenv, keyringtest.Behaviour{}, (*testing.T).Context, keyring.ErrAbsent},
		"refused":          {bus.Getenv, keyringtest.Behaviour{Refuse: true}, (*testing.T).Context, keyring.ErrRefused},
		"silent":           {bus.Getenv, keyringtest.Behaviour{Silent: true}, soon, keyring.ErrSlow},
		"a mute bus":       {at("unix:path=" + bus.Dir + "/mute"), keyringtest.Behaviour{}, soon, keyring.ErrSlow},
	} {
		service.Behave(tt.does)
		for what, err := range calls(tt.ctx(t), keyring.System(tt.getenv)) {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err != nil && strings.Contains(err.Error(), value) {
				t.Errorf("%s, %s: the error has the secret", name, what)
			}
		}
	}
	service.Behave(keyringtest.Behaviour{NoDefault: true})
	if err := keyring.System(bus.Getenv).Store(t.Context(), key, value); !errors.Is(err, keyring.ErrAbsent) || !strings.Contains(err.Error(), "no default keyring") {
		t.Error(err)
	}
}

// The keyring of GNOME, for real.
func TestGnomeKeyring(t *testing.T) {
	program, err := exec.LookPath("gnome-keyring-daemon")
	if err != nil {
		t.Skip("skipped: there is no gnome-keyring-daemon; scripts/keyring.sh installs it")
	}
	bus := keyringtest.StartBus(t)
	conn := bus.Connect(t)
	owners := make(chan *dbus.Signal, 16)
	conn.Signal(owners)
	if err := conn.AddMatchSignal(dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, "org.freedesktop.secrets")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--foreground", "--unlock", "--components=secrets", "--control-directory="+bus.Dir)
	cmd.Env = []string{"HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + bus.Dir, "DBUS_SESSION_BUS_ADDRESS=" + bus.Address(), "PATH=" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader("password\n")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for offered := false; !offered; {
		select {
		case signal := <-owners: // also that this connection has a name
			offered = signal.Name == "org.freedesktop.DBus.NameOwnerChanged"
		case <-ended:
			t.Skipf("skipped: gnome-keyring-daemon doesn't run here: %s", said.String())
		}
	}
	k := keyring.System(bus.Getenv)
	holds(t, k)
	// Locked, it says so.
	if err := k.Store(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
	var locked []dbus.ObjectPath
	var prompt dbus.ObjectPath
	all := []dbus.ObjectPath{"/org/freedesktop/secrets/collection/login"}
	if err := conn.Object("org.freedesktop.secrets", "/org/freedesktop/secrets").Call("org.freedesktop.Secret.Service.Lock", 0, all).Store(&locked, &prompt); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Read(t.Context(), key); !errors.Is(err, keyring.ErrLocked) {
		t.Errorf("%v (locked %v)", err, locked)
	}
}
