package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"agentd/store"

	"github.com/anishathalye/porcupine"
)

func linearChecks() []check {
	return []check{
		{"clients of one node", func(k *kit) { linearize(k, k.s) }},
		{"clients of two nodes", func(k *kit) { linearize(k, k.s, k.other()) }},
	}
}

// linearize lets clients work on few sessions at once, spread over nodes, and
// checks that the calls can be put in an order, each between its begin and its
// end, in which the model gives the same answers. Then it checks that whatever
// was acknowledged is there.
func linearize(k *kit, nodes ...store.Store) {
	h := linearHistory(k, nodes...)
	if !porcupine.CheckOperations(linearModel(), h.operations) {
		k.Errorf("no order of the calls explains their answers:\n%s", h.describe())
	}
	h.checkJournal(k)
}

// linearHistory lets the clients work and returns what they did.
func linearHistory(k *kit, nodes ...store.Store) *history {
	const clients, calls = 6, 60
	h := &history{ids: sessionIDs("lin"), owners: make([]ownership, len(nodes))}
	_, h.apart = k.s.(store.Shared)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		c := &client{
			history: h, node: i % len(nodes), s: nodes[i%len(nodes)], id: i,
			rand: rand.New(rand.NewPCG(uint64(i), 1)),
		}
		wg.Go(func() { errs[i] = c.work(k.ctx, calls) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		k.Fatalf("%v", err)
	}
	return h
}

func sessionIDs(prefix string) [linearSessions]string {
	var ids [linearSessions]string
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return ids
}

// history is what the clients share: the record of their calls, with a clock
// that counts, and the claims that clients of one node may use.
type history struct {
	ids   [linearSessions]string
	clock atomic.Int64
	// apart says that the removal of an entry is ordered by itself: in a store that is shared,
	// what another session puts at the same time may stay.
	apart bool

	mu         sync.Mutex
	operations []porcupine.Operation
	owners     []ownership
}

// ownership is what one node's clients know of its claims.
type ownership [linearSessions]uint64

// call runs one operation and records it, and with it those that happen only if it does.
func (h *history) call(client int, in request, do func() (answer, error), with ...request) (answer, error) {
	begin := h.clock.Add(1)
	out, err := do()
	end := h.clock.Add(1)
	if out.outcome == unknown {
		end = math.MaxInt64 // it may take effect at any time from now
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: end})
	if out.outcome == done || out.outcome == unknown {
		for _, in := range with {
			h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: end})
		}
	}
	return out, err
}

func (h *history) epoch(node, session int) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owners[node][session]
}

func (h *history) setEpoch(node, session int, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owners[node][session] = max(epoch, h.owners[node][session])
}

func (h *history) describe() string {
	var b strings.Builder
	for _, o := range h.operations {
		in, out := o.Input.(request), o.Output.(answer)
		fmt.Fprintf(&b, "  client %d [%d %d] %s\n", o.ClientId, o.Call, o.Return, describeCall(in, out))
	}
	return b.String()
}

func describeCall(in request, out answer) string {
	result := [...]string{"ok", "owned", "conflict", "fenced", "exists", "unknown"}[out.outcome]
	switch in.op {
	case opClaim:
		return fmt.Sprintf("claim s%d → %s epoch %d head %d", in.session, result, out.epoch, out.head.Sequence)
	case opRelease:
		return fmt.Sprintf("release s%d epoch %d", in.session, in.epoch)
	case opAppend:
		return fmt.Sprintf("append s%d epoch %d %d…%d key %d=%q → %s", in.session, in.epoch, in.before+1, in.last.Sequence, in.key, in.value, result)
	case opHead:
		return fmt.Sprintf("head s%d → %d %.4x", in.session, out.head.Sequence, out.head.Hash)
	case opRemove:
		return fmt.Sprintf("remove key %d → %s", in.key, result)
	case opGet:
		return fmt.Sprintf("get key %d → %q", in.key, out.value)
	}
	return "?"
}

// checkJournal reads all sessions and finds each acknowledged append in them.
func (h *history) checkJournal(k *kit) {
	journals := map[int][]store.Record{}
	for i, id := range h.ids {
		journals[i] = k.read(id, store.Range{})
		if err := VerifyChain(id, journals[i]); err != nil {
			k.Errorf("%v", err)
		}
	}
	for _, o := range h.operations {
		in, out := o.Input.(request), o.Output.(answer)
		if in.op != opAppend || out.outcome != done {
			continue
		}
		j := journals[in.session]
		if uint64(len(j)) < in.last.Sequence || j[in.last.Sequence-1].Hash != in.last.Hash {
			k.Errorf("an acknowledged append to session %s up to %d is not there", h.ids[in.session], in.last.Sequence)
		}
	}
}

// client makes random calls. It knows heads from its own calls only, so they
// are often old.
type client struct {
	*history
	node, id int
	s        store.Store
	rand     *rand.Rand
	heads    [linearSessions]store.Head
	appends  int
}

func (c *client) work(ctx context.Context, calls int) error {
	for range calls {
		session := c.rand.IntN(linearSessions)
		var err error
		switch p := c.rand.IntN(100); {
		case p < 12 || c.epoch(c.node, session) == 0:
			err = c.claim(ctx, session)
		case p < 15:
			err = c.release(ctx, session)
		case p < 65:
			err = c.append(ctx, session)
		case p < 90:
			err = c.head(ctx, session)
		default:
			err = c.get(ctx)
		}
		if err != nil {
			return fmt.Errorf("client %d: %w", c.id, err)
		}
	}
	return nil
}

func (c *client) claim(ctx context.Context, session int) error {
	out, err := c.call(c.id, request{op: opClaim, session: session}, func() (answer, error) {
		got, err := c.s.Claim(ctx, c.ids[session])
		if o := (*store.OwnedError)(nil); errors.As(err, &o) {
			return answer{outcome: owned}, nil
		}
		return answer{epoch: got.Epoch, head: got.Head}, err
	})
	if err == nil && out.outcome == done {
		c.setEpoch(c.node, session, out.epoch)
		c.heads[session] = out.head
	}
	return err
}

func (c *client) release(ctx context.Context, session int) error {
	epoch := c.epoch(c.node, session)
	_, err := c.call(c.id, request{op: opRelease, session: session, epoch: epoch}, func() (answer, error) {
		return answer{}, c.s.Release(ctx, c.ids[session], epoch)
	})
	return err
}

func (c *client) append(ctx context.Context, session int) error {
	in, batch := c.batch(session)
	var with []request
	if in.remove && c.apart {
		with, in.key = []request{{op: opRemove, key: in.key}}, -1
	}
	out, err := c.call(c.id, in, func() (answer, error) {
		return outcomeOf(c.s.Append(ctx, []*store.Batch{batch})[0])
	}, with...)
	if err == nil && out.outcome == done {
		c.heads[session] = in.last
	}
	return err
}

// batch makes a batch whose records no other call has, so that the hash of a
// head tells whose it is.
func (c *client) batch(session int) (request, *store.Batch) {
	c.appends++
	id, head := c.ids[session], c.heads[session]
	in := request{op: opAppend, session: session, epoch: c.epoch(c.node, session), before: head.Sequence, key: -1}
	if head.Sequence == 0 {
		head.Hash = store.Genesis(id)
	}
	chain := store.NewChain(head.Hash)
	batch := &store.Batch{SessionID: id, Epoch: in.epoch}
	for i := range 1 + c.rand.IntN(3) {
		data := fmt.Appendf(nil, `{"client":%d,"append":%d,"record":%d}`, c.id, c.appends, i)
		batch.Records = append(batch.Records, store.Record{Sequence: in.before + 1 + uint64(i), Data: data, Hash: chain.Next(data)})
	}
	in.last = HeadOf(batch.Records)
	if c.rand.IntN(2) == 0 {
		in.key, in.remove = c.rand.IntN(linearKeys), c.rand.IntN(2) == 0
		op := removeOp("lin", fmt.Sprint(in.key))
		if !in.remove {
			in.value = fmt.Sprintf("%d/%d", c.id, c.appends)
			op = putNew("lin", fmt.Sprint(in.key), in.value)
		}
		batch.Index = []store.IndexOp{op}
	}
	return in, batch
}

// outcomeOf turns the error of an append into an answer of the model. An error
// that the model doesn't know ends the check.
func outcomeOf(err error) (answer, error) {
	switch {
	case err == nil:
		return answer{}, nil
	case errors.Is(err, store.ErrConflict):
		return answer{outcome: conflict}, nil
	case errors.Is(err, store.ErrFenced):
		return answer{outcome: fenced}, nil
	case errors.Is(err, store.ErrExists):
		return answer{outcome: exists}, nil
	case errors.Is(err, store.ErrUnknownOutcome):
		return answer{outcome: unknown}, nil
	}
	return answer{outcome: unknown}, err
}

func (c *client) head(ctx context.Context, session int) error {
	out, err := c.call(c.id, request{op: opHead, session: session}, func() (answer, error) {
		h, err := c.s.Head(ctx, c.ids[session])
		return answer{head: h}, err
	})
	if err == nil {
		c.heads[session] = out.head
	}
	return err
}

func (c *client) get(ctx context.Context) error {
	key := c.rand.IntN(linearKeys)
	_, err := c.call(c.id, request{op: opGet, key: key}, func() (answer, error) {
		v, err := c.s.Get(ctx, "lin", fmt.Sprint(key))
		if errors.Is(err, store.ErrNotFound) {
			return answer{}, nil
		}
		return answer{value: string(v)}, err
	})
	return err
}
