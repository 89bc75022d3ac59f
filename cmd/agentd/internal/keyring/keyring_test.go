package keyring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseItem(t *testing.T) {
	for text, want := range map[string]Item{
		"anthropic": {"agentd", "anthropic"}, "work/key": {"work", "key"}, "a/b/c": {"a", "b/c"}, "my key": {"agentd", "my key"},
	} {
		if got, err := ParseItem(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "a/", "/b", "a\nb", "\x00"} {
		if got, err := ParseItem(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// fakeSecurity answers as the program of macOS does; its items are files.
const fakeSecurity = `#!/bin/sh
dir=$(dirname "$0")
echo "$*" >> "$dir/arguments"
case $1 in
default-keychain) test -e "$dir/absent" && exit 50; echo '"login.keychain"';;
find-generic-password) test -e "$dir/locked" && exit 36; cat "$dir/item-$3-$5" 2>/dev/null || exit 44;;
delete-generic-password) rm "$dir/item-$3-$5" 2>/dev/null || exit 44;;
unlock-keychain) test -e "$dir/dismissed" && exit 128; rm -f "$dir/locked";;
-i) read -r line; eval "set -- $line"; printf '%b' "$(printf '%s' "${10}" | sed 's/../\\x&/g')" > "$dir/item-$4-$6"; echo >> "$dir/item-$4-$6";;
*) exit 2;;
esac
`

func TestKeychain(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "security")
	if err := os.WriteFile(program, []byte(strings.Replace(fakeSecurity, "/bin/sh", "/bin/bash", 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("skipped: there is no bash to play security with")
	}
	k, ctx := &Keyring{&keychain{program}}, t.Context()
	item := Item{"agentd", "anthropic"}
	const value = `sk-"quoted"\n`
	if err := k.Reach(ctx); err != nil {
		t.Error(err)
	}
	if _, err := k.Read(ctx, item); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := k.Store(ctx, item, value); err != nil {
		t.Error(err)
	}
	if got, err := k.Read(ctx, item); err != nil || got != value {
		t.Errorf("%q, %v", got, err)
	}
	mark := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mark("locked")
	mark("dismissed")
	if _, err := k.Read(ctx, item); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	if err := k.Unlock(ctx); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "dismissed")); err != nil {
		t.Fatal(err)
	}
	if err := k.Unlock(ctx); err != nil {
		t.Error(err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := k.Remove(ctx, item); err != nil || removed != want {
			t.Errorf("%v, %v", removed, err)
		}
	}
	mark("absent")
	if err := k.Reach(ctx); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	if err := (&Keyring{&keychain{filepath.Join(dir, "nothing")}}).Reach(ctx); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	// A list of processes shows arguments.
	text, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if err != nil || strings.Contains(string(text), "sk-") || strings.Contains(string(text), "736b2d") {
		t.Errorf("%v: %s", err, text)
	}
}
