package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"agentd/store"
)

// Two statements, so that the second sees what was committed while the first waited for
// the row.
const (
	lockBlobSQL   = `SELECT size, touched >= clock_timestamp() - $2::interval FROM agentd.blobs WHERE sum = $1 FOR UPDATE`
	neededBlobSQL = `SELECT EXISTS (SELECT 1 FROM agentd.index_entries WHERE kind = ANY ($1) AND key >= $2 AND key < $3)`
)

// SweepBlob implements [store.Shared]. A node that stores the content again or holds it notes
// that in the blob's row, unless it was noted some minutes ago; so what the sweep finds
// unused it has to itself.
func (s *Store) SweepBlob(ctx context.Context, sweep *store.Sweep) (store.Swept, error) {
	if err := s.enterCall(ctx); err != nil {
		return store.Swept{}, err
	}
	defer s.calls.Done()
	sum, err := store.ParseRef(sweep.Ref)
	if err != nil {
		return store.Swept{}, err
	}
	var swept store.Swept
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var err error
		swept, err = sweepLocked(ctx, tx, sum, sweep)
		return err
	})
	if err != nil {
		return store.Swept{}, wrapFailed("sweep blob "+sweep.Ref, err)
	}
	return swept, nil
}

func sweepLocked(ctx context.Context, tx pgx.Tx, sum store.Hash, sweep *store.Sweep) (store.Swept, error) {
	var swept store.Swept
	err := tx.QueryRow(ctx, lockBlobSQL, sum[:], sweep.Unused).Scan(&swept.Size, &swept.Awaited)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Swept{}, nil
	}
	if err != nil || swept.Awaited {
		return swept, err
	}
	var needed bool
	// A slash is followed by a zero.
	if err := tx.QueryRow(ctx, neededBlobSQL, sweep.Unless, []byte(sweep.Ref+"/"), []byte(sweep.Ref+"0")).Scan(&needed); err != nil || needed {
		return swept, err
	}
	_, err = tx.Exec(ctx, deleteBlobSQL, sum[:])
	swept.Deleted = err == nil
	return swept, err
}
