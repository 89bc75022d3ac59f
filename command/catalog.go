package command

import (
	"slices"
	"sync"

	"agentd/fault"
	"agentd/internal/wire"
)

// Role is what a caller's token lets it do. A role may do what the ones below it
// may: observer, client, admin.
type Role string

// The roles.
const (
	// RoleObserver reads.
	RoleObserver Role = "observer"
	// RoleClient reads, and changes what belongs to its account.
	RoleClient Role = "client"
	// RoleAdmin does everything, in every account.
	RoleAdmin Role = "admin"
)

// Allows reports whether a caller with role r may do what needs the given role.
func (r Role) Allows(need Role) bool {
	order := []Role{RoleObserver, RoleClient, RoleAdmin}
	have := slices.Index(order, r)
	return have >= 0 && have >= slices.Index(order, need)
}

// Def is the catalogue's entry for one command.
type Def struct {
	// Name on the wire.
	Name Name
	// Noun is the group under which the reference lists the command.
	Noun string
	// Form is what the command is in Go.
	Form
	// Mutates says that the command changes state and takes an idempotency key.
	Mutates bool
	// EndsWork says that the command ends, stops or answers something. It is carried
	// out also for an account whose storage quota is used up.
	EndsWork bool
	// Destructive says that the command takes something away that no other command
	// brings back, or that it lets an agent act. Clients may ask before they call it.
	Destructive bool
	// Repeatable says that the command does nothing more when it is called again with
	// the same parameters, even without an idempotency key.
	Repeatable bool
	// Waits says that the command only waits for most of its time: among the bounds
	// of a server it counts as a stream, so that it doesn't block reads.
	Waits bool
	// ShowsSecret says that the result has a secret that isn't shown again. Such an
	// answer isn't compressed, because its length would tell something of the secret.
	ShowsSecret bool
	// Scope is the least role that may call the command; see [Need].
	Scope Role
	// Available is false for a command that this release doesn't carry out yet: it
	// checks its parameters and answers with unavailable.
	Available bool
	// Since is the first release that knows the command.
	Since string
	// Means is one line that says what the command does.
	Means string
	// Doc says the rest: what it decides, what can go wrong.
	Doc string
	// Example is a JSON object with parameters that fit.
	Example string
}

// Form is the Go side of a command.
type Form struct {
	// New returns empty parameters.
	New func() Params
	// Result is a nil pointer of the result's type.
	Result any
}

// formOf returns the form of the command with parameters *P and result *R.
func formOf[P, R any, PP interface {
	*P
	Returning[R]
}]() Form {
	return Form{New: func() Params { return PP(new(P)) }, Result: (*R)(nil)}
}

// catalog holds the entries of all commands, in the order of the reference.
var catalog = sync.OnceValue(func() []Def {
	return slices.Concat(
		sessionDefs(), turnDefs(), actionDefs(), threadDefs(), taskDefs(), taskStateDefs(), taskReadDefs(),
		subagentDefs(), jobDefs(), scheduleDefs(), processDefs(), permissionDefs(), environmentDefs(), channelDefs(), peerDefs(), peerWorkDefs(),
		evidenceDefs(), benchmarkDefs(), explainDefs(), quotaDefs(), diffDefs(), findDefs(), artifactDefs(), modelDefs(), usageDefs(), bulkDefs(), adminDefs(), nodeDefs(), replayDefs(),
	)
})

// byName finds an entry by its name.
var byName = sync.OnceValue(func() map[Name]*Def {
	list := catalog()
	m := make(map[Name]*Def, len(list))
	for i := range list {
		m[list[i].Name] = &list[i]
	}
	return m
})

// Catalog returns the entries of all commands. The slice is the caller's.
func Catalog() []Def { return slices.Clone(catalog()) }

// Lookup returns the entry of one command, which must not be changed.
func Lookup(name Name) (*Def, bool) {
	d, ok := byName()[name]
	return d, ok
}

// Need returns the role that a caller needs for these parameters: the command's
// scope, or more where the parameters reach further.
func Need(p Params) Role {
	if s, ok := p.(interface{ scope() Role }); ok {
		return s.scope()
	}
	if d, ok := Lookup(p.Command()); ok {
		return d.Scope
	}
	return RoleAdmin
}

// Decode returns the parameters of a command from a JSON object; an empty body is
// {}. An unknown command is not found; an unknown, repeated or ill-typed parameter
// is named. The parameters are not validated yet.
func Decode(name Name, body []byte) (Params, error) {
	d, ok := Lookup(name)
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no command %s", clipQuoted(string(name)))
	}
	p := d.New()
	if err := wire.Decode(body, p); err != nil {
		return nil, err
	}
	if err := checkEmpty(p, body); err != nil {
		return nil, err
	}
	return p, nil
}
