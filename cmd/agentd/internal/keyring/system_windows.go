package keyring

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// systemKeyring is the Credential Manager.
func systemKeyring(func(string) string) native { return credentials{} }

// credentials are the generic credentials of the user who is logged on. They are never
// locked: Windows unlocks them at the logon.
type credentials struct{}

// credential is the system's CREDENTIALW.
type credential struct {
	flags, kind        uint32
	target, comment    *uint16
	lastWritten        syscall.Filetime
	blobSize           uint32
	blob               *byte
	persist            uint32
	attributeCount     uint32
	attributes         uintptr
	targetAlias, owner *uint16
}

const (
	credGeneric      = 1
	credLocalMachine = 2 // kept for this user on this machine
	maxBlob          = 2560

	errNoItem  = syscall.Errno(1168) // ERROR_NOT_FOUND
	errNoLogon = syscall.Errno(1312) // ERROR_NO_SUCH_LOGON_SESSION
)

var (
	advapi     = syscall.NewLazyDLL("advapi32.dll") // a DLL that Windows never takes from elsewhere
	credRead   = advapi.NewProc("CredReadW")
	credWrite  = advapi.NewProc("CredWriteW")
	credDelete = advapi.NewProc("CredDeleteW")
	credFree   = advapi.NewProc("CredFree")
)

// credError says what an error of the system means.
func credError(err error) error {
	switch {
	case errors.Is(err, errNoItem):
		return ErrNotFound
	case errors.Is(err, errNoLogon):
		return fmt.Errorf("%w: this logon has no credentials", ErrAbsent)
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

func (credentials) reach(context.Context) error {
	if err := credRead.Find(); err != nil {
		return fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return nil
}

func (credentials) read(_ context.Context, item Item) (string, error) {
	target, err := syscall.UTF16PtrFromString(item.String())
	if err != nil {
		return "", ErrNotFound
	}
	var found *credential
	ok, _, err := credRead.Call(uintptr(unsafe.Pointer(target)), credGeneric, 0, uintptr(unsafe.Pointer(&found)))
	if ok == 0 {
		return "", credError(err)
	}
	defer func() { _, _, _ = credFree.Call(uintptr(unsafe.Pointer(found))) }() // it has no result
	return string(unsafe.Slice(found.blob, found.blobSize)), nil
}

func (credentials) store(_ context.Context, item Item, secret string) error {
	if secret == "" || len(secret) > maxBlob {
		return fmt.Errorf("%w: a secret has 1 to %d bytes", ErrRefused, maxBlob)
	}
	target, err := syscall.UTF16PtrFromString(item.String())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	owner, err := syscall.UTF16PtrFromString(item.Account)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	blob := []byte(secret)
	c := credential{kind: credGeneric, target: target, blobSize: uint32(len(blob)), blob: &blob[0], persist: credLocalMachine, owner: owner}
	if ok, _, err := credWrite.Call(uintptr(unsafe.Pointer(&c)), 0); ok == 0 {
		return credError(err)
	}
	return nil
}

func (credentials) remove(_ context.Context, item Item) (bool, error) {
	target, err := syscall.UTF16PtrFromString(item.String())
	if err != nil {
		return false, nil //nolint:nilerr // no item can have such a name
	}
	if ok, _, err := credDelete.Call(uintptr(unsafe.Pointer(target)), credGeneric, 0); ok == 0 {
		if err = credError(err); errors.Is(err, ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

func (credentials) unlock(context.Context) error { return nil }
