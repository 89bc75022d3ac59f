//go:build unix

package main

import (
	"os"
	"strconv"
	"strings"

	"agentd/internal/filelock"
)

// tryLockName takes the lock of the file of a name, which ends with the process, or fails. Which
// process took it last is in another file beside it: versions before read all of this one as the
// name.
func tryLockName(f *os.File) error {
	owner := f.Name() + ".owner"
	err := filelock.Try(f, func() (int, error) {
		text, err := os.ReadFile(owner)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(text)))
	})
	if err != nil {
		return err
	}
	return os.WriteFile(owner, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
}
