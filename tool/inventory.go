package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"agentd/event"
	"agentd/internal/pathglob"
	"agentd/tool/toolkind"
)

// Policies of a tool in an inventory; values of Info's Policy.
const (
	PolicyAllowed     = "allowed"
	PolicyAsk         = "ask"
	PolicyDenied      = "denied"
	PolicySandboxed   = "sandboxed"
	PolicyUnavailable = "unavailable"
)

// builtinSource is the source of the tools that a Registry begins with.
const builtinSource = "builtin"

// maxInventories bounds how many inventories a Registry keeps for turns that ask
// for the same tools again.
const maxInventories = 64

// Registry knows all tools of a runtime: those it begins with, and others that
// come and go by source, such as the servers of a protocol. Many goroutines may
// use it; what it hands out doesn't change any more.
type Registry struct {
	mu       sync.Mutex
	bySource map[string][]*Entry
	byName   map[string]*Entry
	sorted   []*Entry // by name; replaced as a whole
	changed  chan struct{}
	// kept holds inventories by digest while the tools stay the same.
	kept map[string]*Inventory
}

// Entry is a tool in a Registry or an Inventory.
type Entry struct {
	Tool Tool
	// Info is the tool's own; in an Inventory with Policy and Reason.
	Info event.ToolInfo
	// Source that the tool came from.
	Source string

	schema *Schema
	broken error // why its schema can't be used
	digest [sha256.Size]byte
	// more is the entry where calls may ask to leave the sandbox; nil if there is no
	// difference. Both take the same inputs: a call that asks where none may is told so.
	more *Entry
}

// NewRegistry returns a Registry with the tools that stay, as a rule [Builtins].
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{
		bySource: make(map[string][]*Entry),
		changed:  make(chan struct{}),
	}
	if err := r.Replace(builtinSource, tools); err != nil {
		return nil, err
	}
	return r, nil
}

// Replace makes tools all that a source offers: new ones come, others go, in one
// step. A tool whose name is taken by another source, or isn't one that models
// can call, is left out; the error says which, and the others are there.
func (r *Registry) Replace(source string, tools []Tool) error {
	entries := make([]*Entry, 0, len(tools))
	for _, t := range tools {
		entries = append(entries, r.newEntry(source, t))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := maps.Clone(r.byName)
	if taken == nil {
		taken = make(map[string]*Entry, len(entries))
	}
	maps.DeleteFunc(taken, func(_ string, e *Entry) bool { return e.Source == source })
	var faults []string
	kept := make([]*Entry, 0, len(entries))
	for _, e := range entries {
		name := e.Info.ToolName
		if other, ok := taken[name]; ok {
			faults = append(faults, fmt.Sprintf("%s is taken by %s", quoteName(name), other.Source))
			continue
		}
		if !Callable(name) {
			faults = append(faults, fmt.Sprintf("%s is not 1 to 64 of A-Z a-z 0-9 _ -", quoteName(name)))
			continue
		}
		taken[name] = e
		kept = append(kept, e)
	}
	r.set(source, kept, taken)
	if len(faults) > 0 {
		return fmt.Errorf("tool: add tools of %s: %s", source, someOf(faults, 10))
	}
	return nil
}

// Remove takes away all that a source offers.
func (r *Registry) Remove(source string) { _ = r.Replace(source, nil) } // no tools, no faults

// set installs what Replace worked out, and tells those who wait if it differs.
func (r *Registry) set(source string, kept []*Entry, byName map[string]*Entry) {
	same := slices.EqualFunc(r.bySource[source], kept, func(a, b *Entry) bool { return a.digest == b.digest })
	if len(kept) == 0 {
		delete(r.bySource, source)
	} else {
		r.bySource[source] = kept
	}
	r.byName = byName
	r.sorted = slices.SortedFunc(maps.Values(byName), func(a, b *Entry) int {
		return strings.Compare(a.Info.ToolName, b.Info.ToolName)
	})
	// The tools themselves may be new ones even where they say the same.
	r.kept = nil
	if !same {
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// Callable reports whether every provider takes name as that of a function.
func Callable(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func (r *Registry) newEntry(source string, t Tool) *Entry {
	e := r.describe(source, t, t.Info())
	if b, ok := t.(*builtin); ok && b.more != nil {
		e.more = r.describe(source, t, *b.more)
		e.schema, e.broken = e.more.schema, e.more.broken
	}
	return e
}

// describe makes the entry of a tool with what it says of itself.
func (r *Registry) describe(source string, t Tool, info event.ToolInfo) *Entry {
	e := &Entry{Tool: t, Info: info, Source: source}
	e.Info.Policy, e.Info.Reason = "", ""
	var compact bytes.Buffer
	if err := json.Compact(&compact, e.Info.InputSchema); err == nil {
		e.Info.InputSchema = compact.Bytes()
	} else if len(e.Info.InputSchema) > 0 {
		e.broken = fmt.Errorf("the schema is not valid JSON: %w", err)
		e.Info.InputSchema = nil // it would break the fact that lists it
	}
	if e.broken == nil {
		e.schema, e.broken = schemas.Compile(e.Info.InputSchema)
	}
	b, err := json.Marshal(e.Info)
	if err != nil {
		panic(fmt.Sprintf("tool: encode the description of %s: %v", e.Info.ToolName, err)) // text, booleans and JSON that was just read
	}
	e.digest = sha256.Sum256(b)
	return e
}

// Changed returns a channel that is closed at the next change of the tools.
// A caller that waits takes it first, then resolves, then waits.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Get returns the tool of that name. Its Info carries no policy.
func (r *Registry) Get(name string) (*Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.byName[name]
	return e, ok
}

// Kind says what the tool does.
func (e *Entry) Kind() toolkind.Kind { return toolkind.Of(e.Info.ToolName) }

// EntryOf is a tool of which only the description is there, as facts have it.
func EntryOf(info event.ToolInfo) *Entry {
	e := &Entry{Info: info}
	e.schema, e.broken = schemas.Compile(info.InputSchema)
	return e
}

// Validate checks an input against the tool's schema. The error is an [*Error]:
// invalid_input with what to do better, or unavailable if the schema is broken.
func (e *Entry) Validate(input event.Raw) error {
	if e.broken != nil {
		return Errorf(Unavailable, "%s can't be used: %v", e.Info.ToolName, e.broken)
	}
	err := e.schema.Validate(input)
	if err == nil {
		return nil
	}
	if te, ok := errors.AsType[*Error](err); ok {
		te.Message = fmt.Sprintf("the input of %s is not valid: %s", e.Info.ToolName, te.Message)
	}
	return err
}

// Selection says which tools a turn may use.
type Selection struct {
	// Tools are names or globs of those that the turn asked for; nil is all. An
	// empty list that isn't nil is none.
	Tools []string
	// Within are names or globs that bound the turn from outside, such as the
	// isolation of a subagent: a tool must match both. nil is all.
	Within []string
	// Policy returns the policy and the reason of a tool; nil allows everything.
	Policy func(info event.ToolInfo) (policy, reason string)
	// Escalate offers calls to ask to run outside of the sandbox.
	Escalate bool
	// Planning offers what a turn hands its plan over with.
	Planning bool
	// Extra are tools that are there for this selection alone. One whose name is
	// taken, by the registry or by an extra one before it, is left out.
	Extra []Tool
}

// Inventory is what a turn may use. It doesn't change.
type Inventory struct {
	// Entries are sorted by name.
	Entries []*Entry
	// Digest is the same for equal inventories and different for others.
	Digest string

	byName map[string]*Entry
	// encoded is the JSON of the tools, made when it is asked for.
	encoded func() ([]byte, error)
}

// Resolve returns the tools that a selection leaves, with their policy. Equal
// answers while nothing changed are the same Inventory.
func (r *Registry) Resolve(sel Selection) *Inventory {
	r.mu.Lock()
	all, byName := r.sorted, r.byName
	r.mu.Unlock()

	offered := r.mergeExtra(all, byName, sel.Extra)
	picked := make([]*Entry, 0, len(offered))
	verdicts := make([]verdict, 0, len(offered))
	for _, e := range offered {
		if b, ok := e.Tool.(*builtin); ok && b.planning && !sel.Planning {
			continue
		}
		if e.more != nil && sel.Escalate {
			e = e.more
		}
		if matchesAnyGlob(sel.Tools, e.Info.ToolName) && matchesAnyGlob(sel.Within, e.Info.ToolName) {
			picked = append(picked, e)
			verdicts = append(verdicts, judgeTool(e, sel.Policy))
		}
	}
	digest := inventoryDigest(picked, verdicts)
	r.mu.Lock()
	defer r.mu.Unlock()
	current := len(all) == len(r.sorted) && (len(all) == 0 || &all[0] == &r.sorted[0])
	if inv := r.kept[digest]; inv != nil && current {
		return inv
	}
	inv := newInventory(picked, verdicts, digest)
	if current {
		if r.kept == nil || len(r.kept) >= maxInventories {
			r.kept = make(map[string]*Inventory)
		}
		r.kept[digest] = inv
	}
	return inv
}

// mergeExtra returns the entries together with extra ones, sorted by name.
func (r *Registry) mergeExtra(all []*Entry, byName map[string]*Entry, extra []Tool) []*Entry {
	if len(extra) == 0 {
		return all
	}
	out := slices.Clone(all)
	for _, t := range extra {
		e := r.newEntry(t.Info().Source, t)
		if _, taken := byName[e.Info.ToolName]; !taken && Callable(e.Info.ToolName) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *Entry) int { return strings.Compare(a.Info.ToolName, b.Info.ToolName) })
	return slices.CompactFunc(out, func(a, b *Entry) bool { return a.Info.ToolName == b.Info.ToolName })
}

type verdict struct{ policy, reason string }

// judgeTool asks for the policy of a tool that can be used at all.
func judgeTool(e *Entry, policy func(event.ToolInfo) (string, string)) verdict {
	if e.broken != nil {
		return verdict{PolicyUnavailable, e.broken.Error()}
	}
	if policy == nil {
		return verdict{policy: PolicyAllowed}
	}
	p, reason := policy(e.Info)
	if p == "" {
		p = PolicyAllowed
	}
	return verdict{p, reason}
}

// matchesAnyGlob reports whether one of the globs names name; nil names everything.
func matchesAnyGlob(globs []string, name string) bool {
	if globs == nil {
		return true
	}
	for _, g := range globs {
		if g == name || g == "*" {
			return true
		}
		if glob, err := pathglob.Compile(g); err == nil && glob.Match(name) {
			return true
		}
	}
	return false
}

// inventoryDigest hashes what makes an inventory: its tools by their own digests,
// which were made once, and what was decided about each.
func inventoryDigest(entries []*Entry, verdicts []verdict) string {
	h := sha256.New()
	buf := make([]byte, 0, 256)
	for i, e := range entries {
		v := verdicts[i]
		buf = append(buf[:0], e.digest[:]...)
		buf = binary.AppendUvarint(buf, uint64(len(v.policy)))
		buf = append(buf, v.policy...)
		buf = binary.AppendUvarint(buf, uint64(len(v.reason)))
		buf = append(buf, v.reason...)
		h.Write(buf)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(buf[:0]))
}

func newInventory(entries []*Entry, verdicts []verdict, digest string) *Inventory {
	inv := &Inventory{Digest: digest, Entries: make([]*Entry, len(entries)), byName: make(map[string]*Entry, len(entries))}
	for i, e := range entries {
		own := *e
		own.Info.Policy, own.Info.Reason = verdicts[i].policy, verdicts[i].reason
		inv.Entries[i] = &own
		inv.byName[own.Info.ToolName] = &own
	}
	inv.encoded = sync.OnceValues(func() ([]byte, error) { return json.Marshal(inv.Payload().Tools) })
	return inv
}

// JSON returns the tools in full, as JSON that must not be changed. Every session
// stores it once.
func (inv *Inventory) JSON() ([]byte, error) { return inv.encoded() }

// Lookup returns the tool that a model called by name. The error is an [*Error]
// of category not_found that names a tool that is called almost so.
func (inv *Inventory) Lookup(name string) (*Entry, error) {
	if e, ok := inv.byName[name]; ok {
		return e, nil
	}
	err := Errorf(NotFound, "there is no tool %s", quoteName(name))
	names := slices.Collect(maps.Keys(inv.byName))
	slices.Sort(names)
	if like, ok := nearest(name, names); ok {
		err.Advice = fmt.Sprintf("Did you mean %s?", like)
	} else if len(names) > 0 {
		err.Advice = "The tools are: " + someOf(names, 40) + "."
	}
	return nil, err
}

// Offered returns the tools that a model is offered: those that are neither
// denied nor unavailable.
func (inv *Inventory) Offered() []*Entry {
	offered := make([]*Entry, 0, len(inv.Entries))
	for _, e := range inv.Entries {
		if e.Info.Policy != PolicyDenied && e.Info.Policy != PolicyUnavailable {
			offered = append(offered, e)
		}
	}
	return offered
}

// Payload returns the payload of tool.catalog.resolved, with every tool in full.
func (inv *Inventory) Payload() *event.ToolCatalogResolved {
	p := &event.ToolCatalogResolved{ToolCount: int64(len(inv.Entries)), Digest: inv.Digest, Tools: make([]event.ToolInfo, len(inv.Entries))}
	for i, e := range inv.Entries {
		p.Tools[i] = e.Info
	}
	return p
}

// Unmatched returns the names and globs of a selection that name no tool.
func (r *Registry) Unmatched(names []string) []string {
	r.mu.Lock()
	all := r.sorted
	r.mu.Unlock()
	var none []string
	for _, n := range names {
		if !slices.ContainsFunc(all, func(e *Entry) bool { return matchesAnyGlob([]string{n}, e.Info.ToolName) }) {
			none = append(none, n)
		}
	}
	return none
}
