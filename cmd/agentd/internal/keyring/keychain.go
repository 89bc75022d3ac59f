package keyring

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// keychain is the user's login keychain on macOS, by the program "security". It is
// built everywhere, so that its tests run everywhere.
type keychain struct {
	// program is the path of "security".
	program string
}

// Exit codes of security: the low byte of the system's error.
const (
	keychainNotFound = 44  // errSecItemNotFound
	keychainDenied   = 128 // the user clicked "cancel"
	keychainNoUI     = 36  // errSecInteractionNotAllowed: locked, and no one can be asked
	keychainAuth     = 51  // errSecAuthFailed
)

// run starts security and returns what it writes. Commands go to its standard input, so
// that a secret is in no list of processes.
func (k *keychain) run(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.program, args...)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out.String(), nil
	case !errors.As(err, &exit):
		return "", fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	switch exit.ExitCode() {
	case keychainNotFound:
		return "", ErrNotFound
	case keychainNoUI:
		return "", ErrLocked
	case keychainDenied, keychainAuth:
		return "", ErrRefused
	}
	return "", fmt.Errorf("%w: security ended with code %d", ErrRefused, exit.ExitCode())
}

func (k *keychain) reach(ctx context.Context) error {
	_, err := k.run(ctx, "", "default-keychain")
	if err != nil && !errors.Is(err, ErrAbsent) && ctx.Err() == nil {
		return fmt.Errorf("%w: there is no default keychain", ErrAbsent)
	}
	return err
}

func (k *keychain) read(ctx context.Context, item Item) (string, error) {
	out, err := k.run(ctx, "", "find-generic-password", "-s", item.Service, "-a", item.Account, "-w")
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(out, "\n"), nil
}

func (k *keychain) store(ctx context.Context, item Item, secret string) error {
	line := strings.Join([]string{
		"add-generic-password", "-U", "-s", quoted(item.Service), "-a", quoted(item.Account), "-l", quoted(item.label()), "-X", hex.EncodeToString([]byte(secret)),
	}, " ")
	_, err := k.run(ctx, line+"\n", "-i")
	if err != nil {
		return err
	}
	// The program's exit code doesn't say whether a line of its input succeeded.
	kept, err := k.read(ctx, item)
	if err != nil {
		return err
	}
	if kept != secret {
		return fmt.Errorf("%w: the item has another value", ErrRefused)
	}
	return nil
}

// quoted is a text as one word of a line that security reads.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

func (k *keychain) remove(ctx context.Context, item Item) (bool, error) {
	_, err := k.run(ctx, "", "delete-generic-password", "-s", item.Service, "-a", item.Account)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (k *keychain) unlock(ctx context.Context) error {
	_, err := k.run(ctx, "", "unlock-keychain")
	return err
}
