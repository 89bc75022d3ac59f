package store

import (
	"context"
	"errors"
	"fmt"
)

// maxEntryWriters bounds the nodes that write entries of one name at the same moment.
const maxEntryWriters = 256

// WriteEntries makes changes of the index durable that belong to no session, atomically. They
// are written in the name of writer, which has no records and so is in no list of sessions;
// nodes that write at the same moment get one each. A claim that is lost meanwhile is made
// again, once.
func WriteEntries(ctx context.Context, s Store, writer string, ops []IndexOp) error {
	var err error
	for range 2 {
		var name string
		var claim Claim
		if name, claim, err = claimEntryWriter(ctx, s, writer); err != nil {
			return err
		}
		err = s.Append(ctx, []*Batch{{SessionID: name, Epoch: claim.Epoch, Index: ops}})[0]
		_ = s.Release(context.WithoutCancel(ctx), name, claim.Epoch) // its lease ends anyway
		if !errors.Is(err, ErrFenced) {
			break
		}
	}
	return err
}

// claimEntryWriter claims a name that no other node writes under at this moment.
func claimEntryWriter(ctx context.Context, s Store, writer string) (string, Claim, error) {
	for n := range maxEntryWriters {
		name := fmt.Sprintf("%s.%d", writer, n)
		claim, err := s.Claim(ctx, name)
		if _, owned := errors.AsType[*OwnedError](err); owned {
			continue
		}
		return name, claim, err
	}
	return "", Claim{}, fmt.Errorf("store: more than %d nodes write %s at once", maxEntryWriters, writer)
}
