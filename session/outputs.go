package session

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"agentd/event"
	"agentd/quota"
	"agentd/store"
)

// Outputs of tools and processes don't live for ever. When one is recorded, the
// index keeps when; [Manager.ExpireOutputs] goes through that index by time.
//
// Expiry has two halves, so that a crash between any two steps leaves nothing
// that points nowhere. The first is one write to the session: the fact
// output.expired, the right to read is taken back, and a note that the bytes may
// go. The second follows the notes: bytes that no session may read any more and
// that no fact refers to are deleted, then the note is. A sweep that was cut off
// finds the notes of the one before.
//
// What a fact names in any other way than as the output of its call is kept for
// ever: evidence, artifacts, summaries, inputs. That is decided by looking for
// references in the encoded fact, not by a list of fields, so that a new kind of
// fact protects what it names without further care. Earlier contents of
// files have no entry in this index and are never looked at.

const (
	// freshFor is how long content that was stored ahead of its fact waits for it.
	freshFor = time.Hour
	// maxInside bounds the references that one stored content can protect.
	maxInside = 1 << 20
)

// outputs is what the manager knows of stored content beyond the store.
type outputs struct {
	// storing is read-locked by every goroutine that writes content or refers to it, until
	// that is durable, and for writing while bytes are deleted: so content can't
	// vanish between the moment in which the store finds that it has it already
	// and the moment in which a fact refers to it. A goroutine that holds it for
	// writing must not take a writer's lock.
	storing sync.RWMutex
	// sweeping is held by the one sweep at a time.
	sweeping sync.Mutex

	mu sync.Mutex
	// fresh holds content that was stored and that no fact refers to yet.
	fresh map[string]ahead
}

// ahead is content that was stored ahead of its fact: when, and what it refers to.
type ahead struct {
	at   time.Time
	refs []string
	size int64
}

// put notes content that a fact will refer to.
func (o *outputs) put(info store.BlobInfo, inside []string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fresh == nil {
		o.fresh = map[string]ahead{}
	}
	for r, a := range o.fresh {
		if now.Sub(a.at) > freshFor {
			delete(o.fresh, r)
		}
	}
	o.fresh[info.Ref] = ahead{now, inside, info.Size}
}

// awaited reports whether a fact may still come for content.
func (o *outputs) awaited(ref string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	a, ok := o.fresh[ref]
	return ok && now.Sub(a.at) <= freshFor
}

// inside returns what content that was stored ahead of its fact refers to, and its
// size.
func (o *outputs) inside(ref string) (refs []string, size int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.fresh[ref]
	return a.refs, a.size
}

// refReader gathers the references in what is read through it.
type refReader struct {
	r    io.Reader
	tail []byte
	seen map[string]bool
	refs []string
}

// refOverlap is more than a reference with its quotes and the end of its key.
const refOverlap = 128

// Read implements [io.Reader].
func (r *refReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.tail = append(r.tail, p[:n]...)
	for _, ref := range store.RefsIn(r.tail, maxInside) {
		if !r.seen[ref] && len(r.refs) < maxInside {
			r.seen[ref] = true
			r.refs = append(r.refs, ref)
		}
	}
	if cut := len(r.tail) - refOverlap; cut > 0 {
		r.tail = append(r.tail[:0], r.tail[cut:]...)
	}
	return n, err
}

// RefsIn returns the references in a text, each once.
func RefsIn(text io.Reader) ([]string, error) {
	found := &refReader{r: text, seen: map[string]bool{}}
	_, err := io.Copy(io.Discard, found)
	return found.refs, err
}

// Retain says that what the decision stores refers to these outputs: they never
// expire. References in facts, and in JSON that is stored with them or ahead of
// them, are found without it; it is for those that stand elsewhere.
func (tx *Tx) Retain(refs ...string) {
	for _, ref := range refs {
		tx.index = append(tx.index, putOp(kindKept, ref+"/"+tx.w.id, nil))
	}
}

// StoreAnswer stores a long answer to a question about the session and returns its
// reference; empty if the account has no room for it. No fact names it, and it expires as
// the output of a tool does: those who may only read can ask again and again.
func (tx *Tx) StoreAnswer(content []byte, mediaType string) (ref string, err error) {
	ref = store.RefOf(sha256.Sum256(content))
	_, known, err := tx.Lookup(kindOutput, ref+"/"+tx.w.id)
	switch {
	case err != nil:
		return "", storeFault(err)
	case known:
		return ref, nil
	}
	if hasRoom := tx.w.usage == nil || tx.w.usage.Room(quota.StoredBytes) == nil; !hasRoom {
		return "", nil
	}
	tx.Blob(content, mediaType)
	at := timestampKey(tx.now)
	tx.index = append(tx.index, putOp(kindOutputAt, at+"/"+ref+"/"+tx.w.id, []byte("{}")), putOp(kindOutput, ref+"/"+tx.w.id, []byte(at)))
	return ref, nil
}

// outputsOf returns the references of a fact that name what its call or process
// gave. Every other reference protects what it names.
func outputsOf(e *event.Event) []string {
	var refs []string
	switch p := e.Payload.(type) {
	case *event.OutputStored:
		refs = []string{p.OutputRef}
	case *event.OutputRedacted:
		refs = []string{p.OutputRef}
	case *event.OutputExpired:
		refs = []string{p.OutputRef}
	case *event.ToolResult:
		refs = append([]string{p.OutputRef, p.StructuredRef}, p.ImageRefs...)
	case *event.ToolFailed:
		refs = []string{p.OutputRef}
	case *event.ProcessOutput:
		refs = []string{p.OutputRef}
	case *event.ProcessCompleted:
		refs = []string{p.OutputRef, p.StderrRef}
	case *event.ProcessFailed:
		refs = []string{p.OutputRef}
	case *event.ProcessTerminated:
		refs = []string{p.OutputRef}
	}
	return refs
}

// stores reports whether a fact tells of an output that is there from now on.
func stores(p event.Payload) bool {
	switch p.(type) {
	case *event.OutputRedacted, *event.OutputExpired:
		return false
	}
	return true
}

// outputEntry is what the index keeps of an output by its time: enough for the
// fact of its end.
type outputEntry struct {
	ThreadID   string `json:"threadId,omitempty"`
	TurnID     string `json:"turnId,omitempty"`
	TaskID     string `json:"taskId,omitempty"`
	RunID      string `json:"runId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	ProcessID  string `json:"processId,omitempty"`
	SubagentID string `json:"subagentId,omitempty"`
}

func (o *outputEntry) scope() event.Scope {
	return event.Scope{
		ThreadID: o.ThreadID, TurnID: o.TurnID, TaskID: o.TaskID, RunID: o.RunID,
		ToolCallID: o.ToolCallID, ProcessID: o.ProcessID, SubagentID: o.SubagentID,
	}
}

// timestampKey orders entries by time.
func timestampKey(t time.Time) string { return fmt.Sprintf("%016x", t.UnixMicro()) }

// indexOutputs appends the entries that expiry needs of a fact that is being
// written: when its outputs were stored.
func indexOutputs(ops []store.IndexOp, e *event.Event) ([]store.IndexOp, error) {
	if !stores(e.Payload) {
		return ops, nil
	}
	for _, ref := range outputsOf(e) {
		if _, err := store.ParseRef(ref); err != nil {
			continue // none, or not ours
		}
		value, err := json.Marshal(outputEntry{e.ThreadID, e.TurnID, e.TaskID, e.RunID, e.ToolCallID, e.ProcessID, e.SubagentID})
		if err != nil {
			return nil, fmt.Errorf("session: output: %w", err)
		}
		at := timestampKey(e.Time)
		ops = append(ops, putOp(kindOutputAt, at+"/"+ref+"/"+e.SessionID, value), putOp(kindOutput, ref+"/"+e.SessionID, []byte(at)))
	}
	return ops, nil
}

// indexKept appends an entry for each reference by which an encoded fact protects
// what it names.
func indexKept(ops []store.IndexOp, e *event.Event, data []byte) []store.IndexOp {
	switch e.Payload.(type) {
	case *event.ModelDelta, *event.ReasoningDelta:
		return ops // a piece of a text; the whole follows
	}
	if e.IsCut() {
		data = event.AppendJSON(nil, e) // what isn't shown protects as well
	}
	refs := store.RefsIn(data, maxInside)
	if len(refs) == 0 {
		return ops
	}
	for _, own := range outputsOf(e) {
		for i, ref := range refs {
			if ref == own { // one mention each: a second one protects
				refs = append(refs[:i], refs[i+1:]...)
				break
			}
		}
	}
	for _, ref := range refs {
		ops = append(ops, putOp(kindKept, ref+"/"+e.SessionID, nil))
	}
	return ops
}

// indexPayload appends the entry by which callers may read the whole payload of a fact
// that shows only a part of it.
func indexPayload(ops []store.IndexOp, e *event.Event) []store.IndexOp {
	if !e.IsCut() {
		return ops
	}
	return append(ops, refEntry(e.Refs[event.PayloadRef], e.SessionID, "application/json"))
}

// keepInside appends entries for what JSON that is stored beside facts refers to,
// such as a large input or a pack of evidence. What tools gave protects nothing.
func keepInside(ops []store.IndexOp, tx *Tx) []store.IndexOp {
	var given map[string]bool
	for i, content := range tx.blobs {
		if len(content) == 0 || (content[0] != '{' && content[0] != '[') || tx.blobRefs[i] == "" {
			continue
		}
		if given == nil {
			given = map[string]bool{}
			for j := range tx.facts {
				for _, ref := range outputsOf(&tx.facts[j]) {
					given[ref] = true
				}
			}
		}
		if given[tx.blobRefs[i]] {
			continue
		}
		for _, ref := range store.RefsIn(content, maxInside) {
			ops = append(ops, putOp(kindKept, ref+"/"+tx.w.id, nil))
		}
	}
	return ops
}

// refers reports whether a batch stores content or refers to some.
func refers(b *store.Batch) bool {
	if len(b.Blobs) > 0 {
		return true
	}
	for i := range b.Index {
		if op := &b.Index[i]; !op.Delete && (op.Kind == kindRef || op.Kind == kindKept) {
			return true
		}
	}
	return false
}
