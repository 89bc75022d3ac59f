//go:build !darwin && !windows

package keyring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"github.com/godbus/dbus/v5"
)

// Names of the Secret Service.
const (
	secretsName  = "org.freedesktop.secrets"
	secretsPath  = dbus.ObjectPath("/org/freedesktop/secrets")
	secrets      = "org.freedesktop.Secret."
	noObject     = dbus.ObjectPath("/")
	loginDefault = dbus.ObjectPath("/org/freedesktop/secrets/aliases/default")
)

// secretService is the Secret Service of a desktop, over the user's session bus.
type secretService struct{ getenv func(string) string }

// secret is how the Secret Service passes one on. The bus is a socket of this user's,
// and every process that could listen in could also ask for the secret, so it travels
// as it is.
type secret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

// talk is one connection to the Secret Service.
type talk struct {
	conn *dbus.Conn
	stop func() bool
}

// open connects to the bus. The connection ends with ctx, whatever is waited for.
func (s *secretService) open(ctx context.Context) (*talk, error) {
	raw, err := dialBus(ctx, s.getenv)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	conn, err := greet(raw)
	if err != nil {
		stop()
		_ = raw.Close() // what failed is said
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: the session bus: %w", ErrAbsent, err)
	}
	return &talk{conn, stop}, nil
}

// greet makes a connection one of the bus.
func greet(raw net.Conn) (*dbus.Conn, error) {
	conn, err := dbus.NewConn(raw)
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
		return nil, err
	}
	return conn, conn.Hello()
}

func (t *talk) close() {
	t.stop()
	_ = t.conn.Close() // nothing is under way
}

// call calls a method of an object of the Secret Service.
func (t *talk) call(ctx context.Context, path dbus.ObjectPath, method string, results []any, args ...any) error {
	err := t.conn.Object(secretsName, path).CallWithContext(ctx, secrets+method, 0, args...).Store(results...)
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return serviceError(err)
}

// serviceError says what an error of the bus or of the service means.
func serviceError(err error) error {
	var said dbus.Error
	if !errors.As(err, &said) {
		return fmt.Errorf("%w: %w", ErrAbsent, err) // the bus is gone, or speaks another language
	}
	switch said.Name {
	case "org.freedesktop.Secret.Error.IsLocked":
		return ErrLocked
	case "org.freedesktop.Secret.Error.NoSuchObject", "org.freedesktop.DBus.Error.UnknownObject":
		return ErrNotFound
	case "org.freedesktop.DBus.Error.AccessDenied", "org.freedesktop.DBus.Error.AuthFailed":
		return ErrRefused
	case "org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Timeout", "org.freedesktop.DBus.Error.TimedOut":
		return ErrSlow
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner":
		return fmt.Errorf("%w: no program offers the Secret Service on the session bus", ErrAbsent)
	}
	return fmt.Errorf("%w: %s", ErrRefused, said.Name)
}

// session opens a session, without which no secret is passed on.
func (t *talk) session(ctx context.Context) (dbus.ObjectPath, error) {
	var unused dbus.Variant
	var path dbus.ObjectPath
	err := t.call(ctx, secretsPath, "Service.OpenSession", []any{&unused, &path}, "plain", dbus.MakeVariant(""))
	return path, err
}

// attributes are what an item is found by. Other programs use the same names.
func attributes(item Item) map[string]string {
	return map[string]string{"service": item.Service, "username": item.Account}
}

// find returns the objects of an item.
func (t *talk) find(ctx context.Context, item Item) (unlocked, locked []dbus.ObjectPath, err error) {
	err = t.call(ctx, secretsPath, "Service.SearchItems", []any{&unlocked, &locked}, attributes(item))
	return unlocked, locked, err
}

func (s *secretService) reach(ctx context.Context) error {
	t, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	_, err = t.session(ctx)
	return err
}

func (s *secretService) read(ctx context.Context, item Item) (string, error) {
	t, err := s.open(ctx)
	if err != nil {
		return "", err
	}
	defer t.close()
	session, err := t.session(ctx)
	if err != nil {
		return "", err
	}
	unlocked, locked, err := t.find(ctx, item)
	switch {
	case err != nil:
		return "", err
	case len(unlocked) > 0:
		var found secret
		err := t.call(ctx, unlocked[0], "Item.GetSecret", []any{&found}, session)
		return string(found.Value), err
	case len(locked) > 0:
		return "", ErrLocked
	}
	// Some services don't say what is in a keyring that is locked.
	if isLocked, err := t.isLocked(ctx); err == nil && isLocked {
		return "", ErrLocked
	}
	return "", ErrNotFound
}

// isLocked reports whether the keyring that new secrets go into is locked.
func (t *talk) isLocked(ctx context.Context) (bool, error) {
	var value dbus.Variant
	err := t.conn.Object(secretsName, loginDefault).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, secrets+"Collection", "Locked").Store(&value)
	if err != nil {
		return false, serviceError(err)
	}
	locked, _ := value.Value().(bool)
	return locked, nil
}

func (s *secretService) store(ctx context.Context, item Item, text string) error {
	t, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	collection, err := t.unlocked(ctx)
	if err != nil {
		return err
	}
	session, err := t.session(ctx)
	if err != nil {
		return err
	}
	properties := map[string]dbus.Variant{
		secrets + "Item.Label":      dbus.MakeVariant(item.label()),
		secrets + "Item.Attributes": dbus.MakeVariant(attributes(item)),
	}
	kept := secret{Session: session, Parameters: []byte{}, Value: []byte(text), ContentType: "text/plain; charset=utf8"}
	var made, prompt dbus.ObjectPath
	if err := t.call(ctx, collection, "Collection.CreateItem", []any{&made, &prompt}, properties, kept, true); err != nil {
		return err
	}
	return t.prompt(ctx, prompt)
}

// unlocked returns the keyring that new secrets go into, after its user has unlocked it.
func (t *talk) unlocked(ctx context.Context) (dbus.ObjectPath, error) {
	var collection dbus.ObjectPath
	if err := t.call(ctx, secretsPath, "Service.ReadAlias", []any{&collection}, "default"); err != nil {
		return "", err
	}
	if collection == noObject || collection == "" {
		return "", fmt.Errorf("%w: the Secret Service has no default keyring yet; make one with its own program", ErrAbsent)
	}
	var opened []dbus.ObjectPath
	var prompt dbus.ObjectPath
	if err := t.call(ctx, secretsPath, "Service.Unlock", []any{&opened, &prompt}, []dbus.ObjectPath{collection}); err != nil {
		return "", err
	}
	if slices.Contains(opened, collection) {
		return collection, nil
	}
	if prompt == noObject {
		return "", ErrLocked
	}
	return collection, t.prompt(ctx, prompt)
}

// prompt has the service ask its user, and waits for the answer.
func (t *talk) prompt(ctx context.Context, path dbus.ObjectPath) error {
	if path == noObject || path == "" {
		return nil
	}
	told := make(chan *dbus.Signal, 16)
	t.conn.Signal(told)
	defer t.conn.RemoveSignal(told)
	if err := t.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(secrets+"Prompt"), dbus.WithMatchObjectPath(path)); err != nil {
		return errors.Join(serviceError(err), ctx.Err())
	}
	if err := t.call(ctx, path, "Prompt.Prompt", nil, ""); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case signal, open := <-told:
			if !open {
				return fmt.Errorf("%w: the session bus is gone", ErrAbsent)
			}
			if signal.Path != path || signal.Name != secrets+"Prompt.Completed" {
				continue
			}
			if dismissed, _ := first(signal.Body).(bool); dismissed {
				return fmt.Errorf("%w: the question was dismissed", ErrRefused)
			}
			return nil
		}
	}
}

func first(body []any) any {
	if len(body) == 0 {
		return nil
	}
	return body[0]
}

func (s *secretService) remove(ctx context.Context, item Item) (bool, error) {
	t, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer t.close()
	unlocked, locked, err := t.find(ctx, item)
	if err != nil {
		return false, err
	}
	if len(locked) > 0 {
		return false, ErrLocked
	}
	for _, path := range unlocked {
		var prompt dbus.ObjectPath
		if err := t.call(ctx, path, "Item.Delete", []any{&prompt}); err != nil {
			return false, err
		}
		if err := t.prompt(ctx, prompt); err != nil {
			return false, err
		}
	}
	return len(unlocked) > 0, nil
}

func (s *secretService) unlock(ctx context.Context) error {
	t, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	_, err = t.unlocked(ctx)
	return err
}
