package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentd/command"
	"agentd/fault"
	"agentd/store"
)

// This file answers "was this sent before?" for every command: [Manager.Enter] keeps
// calls that may be the same one apart, [Manager.First] finds what was kept of the
// first, and the write of a command keeps its result in the same transaction as its
// facts.

// Enter implements [command.Repeats]. It also refuses an id for something new that
// belongs to another account.
func (m *Manager) Enter(ctx context.Context, caller command.Caller, p command.Params) (leave func(), err error) {
	leave, err = m.repeats.enter(ctx, lanesOf(caller, p))
	if err != nil {
		return nil, err
	}
	if c, ok := p.(command.Creating); ok {
		noun, id := c.NewID()
		if err := m.checkUnowned(ctx, caller, noun, id); err != nil {
			leave()
			return nil, err
		}
	}
	return leave, nil
}

// First implements [command.Repeats].
func (m *Manager) First(ctx context.Context, caller command.Caller, p command.Params, kept any) (bool, error) {
	r, err := m.request(caller, p)
	if err != nil {
		return false, err
	}
	return r.readFirst(ctx, kept)
}

// Overtaken implements [command.Repeats].
func (m *Manager) Overtaken(err error) bool { return errors.Is(err, store.ErrExists) }

// readFirst reads what was kept under the call's idempotency key.
func (r *request) readFirst(ctx context.Context, kept any) (bool, error) {
	if r.key == "" {
		return false, nil
	}
	v, err := r.m.opt.Store.Get(ctx, kindKey, r.key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, storeFault(err)
	}
	first, err := r.firstResultOf(v)
	if err != nil {
		return false, err
	}
	return true, first.decode(kept)
}

// firstResult is what the index keeps under an idempotency key.
type firstResult struct {
	Digest string          `json:"digest"`
	Result json.RawMessage `json:"result"`
	// Answer is what the caller got, for a command whose answer is made from the
	// result after its write; see [Answered].
	Answer json.RawMessage `json:"answer,omitempty"`
}

// repeatedResult is what a repeated call gets.
func (f *firstResult) repeatedResult() json.RawMessage {
	if f.Answer != nil {
		return f.Answer
	}
	return f.Result
}

// Answered keeps the answer to a command that was made from the result of its [Write],
// such as a view of what the write led to, for repeated calls. It returns the answer
// that counts: the one that was kept first.
func Answered[R any](ctx context.Context, m *Manager, caller command.Caller, p command.Params, sessionID string, answer *R) (*R, error) {
	r, err := m.request(caller, p)
	if err != nil || r.key == "" {
		return answer, err
	}
	told := answer
	err = m.writeDecision(ctx, sessionID, r.by, false, func(tx *Tx) error {
		v, found, err := tx.Lookup(kindKey, r.key)
		if err != nil || !found {
			return err
		}
		first, err := r.firstResultOf(v)
		if err != nil {
			return err
		}
		if first.Answer != nil {
			told = new(R)
			return first.decode(told)
		}
		if first.Answer, err = json.Marshal(answer); err == nil {
			v, err = json.Marshal(first)
		}
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the result could not be stored")
		}
		tx.index = append(tx.index, store.IndexOp{Entry: store.Entry{Kind: kindKey, Key: r.key, Value: v}})
		return nil
	})
	if err != nil {
		return nil, storeFault(err)
	}
	return told, nil
}

// firstResultOf reads what is kept under the call's idempotency key.
func (r *request) firstResultOf(v []byte) (*firstResult, error) {
	first := &firstResult{}
	if err := json.Unmarshal(v, first); err != nil {
		return nil, errKept(err)
	}
	if first.Digest != r.digest {
		return nil, fault.New(fault.Conflict, "the idempotency key was used before with different parameters; use a new key, or repeat the same parameters")
	}
	return first, nil
}

// decode reads what a repeated call gets.
func (f *firstResult) decode(into any) error {
	if err := json.Unmarshal(f.repeatedResult(), into); err != nil {
		return errKept(err)
	}
	return nil
}

func errKept(err error) error {
	return storeFault(fmt.Errorf("%w: idempotency key: %w", store.ErrCorrupt, err))
}

// rememberResult binds the idempotency key to the result, in the same write as the facts.
func (r *request) rememberResult(tx *Tx, result any) error {
	if r.key == "" {
		return nil
	}
	b, err := json.Marshal(result)
	if err == nil {
		b, err = json.Marshal(firstResult{Digest: r.digest, Result: b})
	}
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the result could not be stored")
	}
	tx.Claim(kindKey, r.key, b)
	return nil
}
