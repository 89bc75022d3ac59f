package usage

// Figures are what is counted. Costs are in billionths of a dollar, so that sums don't
// depend on the order in which they are added up.
type Figures [figureCount]int64

// What is counted, by the place in [Figures]. Stored packs have the places: new ones come
// at the end.
const (
	Turns = iota
	Failures
	Cancelled
	ModelCalls
	ModelFailures
	InputTokens
	CachedInputTokens
	OutputTokens
	ReasoningTokens
	CostNanoUSD
	ToolCalls
	ToolFailures
	Approvals
	ApprovalWaitMs

	figureCount
)

// Sum adds other figures.
func (f *Figures) Sum(other *Figures) {
	for i, n := range other {
		f[i] += n
	}
}

// Key says what figures are about. What doesn't apply is empty: the input of a turn
// belongs to no tool.
type Key struct{ Account, Workspace, Session, Model, Tool string }

// Dimension is a set of the parts of a key.
type Dimension uint8

// The parts of a key.
const (
	ByAccount Dimension = 1 << iota
	ByWorkspace
	BySession
	ByModel
	ByTool
)

// keepParts returns the key with only those parts.
func (d Dimension) keepParts(k Key) Key {
	if d&ByAccount == 0 {
		k.Account = ""
	}
	if d&ByWorkspace == 0 {
		k.Workspace = ""
	}
	if d&BySession == 0 {
		k.Session = ""
	}
	if d&ByModel == 0 {
		k.Model = ""
	}
	if d&ByTool == 0 {
		k.Tool = ""
	}
	return k
}

// rollup is a set of sums that is kept: over everything but some parts of the key.
type rollup struct {
	// name is a part of the keys of entries.
	name string
	has  Dimension
}

// whole has every part: all others follow from it. Its packs have the sums of sessions, too.
var whole = rollup{"x", ByAccount | ByWorkspace | BySession | ByModel | ByTool}

// sessionless has every part but the session: there are few keys, however many sessions.
var sessionless = rollup{"p", ByAccount | ByWorkspace | ByModel | ByTool}

// rollups are kept in the order in which queries prefer them: the smallest first.
var rollups = []rollup{{"t", ByModel | ByTool}, sessionless, whole}

// rollupFor returns the smallest rollup that has those parts.
func rollupFor(d Dimension) rollup {
	for _, r := range rollups {
		if r.has&d == d {
			return r
		}
	}
	return whole
}
