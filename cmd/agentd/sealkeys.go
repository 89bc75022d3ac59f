package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/sharedkey"
	"agentd/store"
	"agentd/workspace"
)

// earlierTokenEnv is the variable with the admin token before, while it is replaced on the
// nodes of a database.
const earlierTokenEnv = "AGENTD_EARLIER_TOKEN"

// sealKeys are the keys of what is kept sealed: earlier contents of files, where peers are
// told of their tasks.
type sealKeys struct {
	// own seals.
	own []byte
	// others returns further keys, which only open; nil if there are none.
	others func(context.Context) ([][]byte, error)
}

// openSealKeys returns the key of a data directory, or the one that the nodes of a database
// share. There a key that this node had for itself still opens what it sealed.
func (a *app) openSealKeys(ctx context.Context, c *config.Config, s store.Store, log *slog.Logger) (*sealKeys, error) {
	secret := a.token(c)
	if _, shared := s.(store.Shared); !shared || secret == "" {
		own, err := workspace.LoadKey(c.Local())
		return &sealKeys{own: own}, err
	}
	var local [][]byte
	if _, err := os.Stat(filepath.Join(c.Local(), workspace.KeyFile)); err == nil {
		key, err := workspace.LoadKey(c.Local())
		if err != nil {
			return nil, err
		}
		local = append(local, key)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("key for undo: %w", err)
	}
	ring, err := sharedkey.Open(ctx, sharedkey.Options{Store: s, Secret: secret, Earlier: a.env[earlierTokenEnv], Local: local})
	if errors.Is(err, sharedkey.ErrWeakSecret) {
		log.Warn("the nodes share no key: what one of them seals, such as earlier contents of files, the others can't open; set a longer AGENTD_TOKEN", "error", err)
		own, err := workspace.LoadKey(c.Local())
		return &sealKeys{own: own}, err
	}
	if err != nil {
		return nil, err
	}
	if n := ring.Foreign(); n > 0 {
		log.Warn("what nodes with another admin token sealed, such as earlier contents of files, can't be opened here; "+
			"give all nodes the same AGENTD_TOKEN, and start one of them once with the other token in "+earlierTokenEnv, "keys", n)
	}
	return &sealKeys{own: ring.Key(), others: ring.Reload}, nil
}
