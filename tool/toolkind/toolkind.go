// Package toolkind is the catalogue of the built-in tools, for code that has to know
// what a tool does and must not know how: policies, adapters of protocols, clients.
//
// Facts carry the name of a tool. [Of] gives its [Kind], and the kind says the rest.
// No other package compares names: a switch over kinds without a default is checked to
// name each of them, so a new tool shows up wherever it has to be decided about.
package toolkind

import (
	"encoding/json"
	"maps"
	"slices"
)

// Kind says what a tool does. That of a built-in tool is its name on the wire; every
// other tool is of kind [Other].
type Kind string

// The kinds of tools, and so the built-in tools.
const (
	// Other tools belong to a server, a client or the host: only their description and
	// their input say what they do.
	Other       Kind = ""
	ReadFile    Kind = "read_file"
	WriteFile   Kind = "write_file"
	EditFile    Kind = "edit_file"
	ListFiles   Kind = "list_files"
	SearchFiles Kind = "search_files"
	// Shell runs a command line.
	Shell Kind = "shell"
	// UpdatePlan records the steps of a plan.
	UpdatePlan Kind = "update_plan"
	// RequestInput asks a person a question.
	RequestInput Kind = "request_input"
	// SpawnAgent starts another agent.
	SpawnAgent Kind = "spawn_agent"
	// PresentPlan hands a plan over for approval. It is offered in the permission mode
	// plan alone.
	PresentPlan Kind = "present_plan"
)

// Access is what a call does with the file or folder that its argument path names.
type Access int

const (
	// NoFile means that there is no such argument.
	NoFile Access = iota
	// ReadsFile reads one file.
	ReadsFile
	// ReadsTree reads a folder and what is below it.
	ReadsTree
	// WritesFile creates or changes one file.
	WritesFile
)

// spec is what the catalogue knows of a tool.
type spec struct {
	access Access
	// loopOwned says that the loop carries the tool out.
	loopOwned bool
}

var catalogue = map[Kind]spec{
	ReadFile:     {access: ReadsFile},
	WriteFile:    {access: WritesFile},
	EditFile:     {access: WritesFile},
	ListFiles:    {access: ReadsTree},
	SearchFiles:  {access: ReadsTree},
	Shell:        {},
	UpdatePlan:   {},
	RequestInput: {loopOwned: true},
	SpawnAgent:   {loopOwned: true},
	PresentPlan:  {loopOwned: true},
}

// Of returns the kind of the tool of that name.
func Of(name string) Kind {
	if _, builtin := catalogue[Kind(name)]; builtin {
		return Kind(name)
	}
	return Other
}

// Builtin returns the kinds of the built-in tools, sorted: all but [Other].
func Builtin() []Kind { return slices.Sorted(maps.Keys(catalogue)) }

// FileTools returns the names of the tools with an argument path, sorted.
func FileTools() []string {
	var names []string
	for _, k := range Builtin() {
		if k.Access() != NoFile {
			names = append(names, string(k))
		}
	}
	return names
}

// Access says what a call does with the file or folder in its argument path.
func (k Kind) Access() Access { return catalogue[k].access }

// LoopOwned reports whether the loop itself carries the tool out: it waits for a person
// or for another thread, or changes what the turn may do, so a call of it is a state of
// the turn, not of a goroutine.
func (k Kind) LoopOwned() bool { return catalogue[k].loopOwned }

// Arguments are the arguments of built-in tools that people are shown.
type Arguments struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Old     string `json:"old"`
	New     string `json:"new"`
	Glob    string `json:"glob"`
	Pattern string `json:"pattern"`
	Command string `json:"command"`
	Prompt  string `json:"prompt"`
	Role    string `json:"role"`
	Input   string `json:"input"`
	Plan    string `json:"plan"`
}

// ReadArguments reads the arguments of a call. What isn't there, or isn't text, stays
// empty; the rest is also there beside an error.
func ReadArguments(input []byte) (Arguments, error) {
	var a Arguments
	err := json.Unmarshal(input, &a)
	return a, err
}
