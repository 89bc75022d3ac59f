package command

import (
	"time"

	"agentd/fault"
)

// Narrowing is what lists of things in sessions can be narrowed by, beside what only
// some of them have. An empty field keeps everything.
type Narrowing struct {
	// Query keeps the things whose id, title or other short texts contain it; upper and
	// lower case are the same.
	Query string `json:"query,omitempty" max:"1000"`
	// Workspace keeps the things of sessions that work in this folder.
	Workspace string `json:"workspace,omitempty" max:"4096"`
	// Account keeps the things of an account.
	Account string `json:"account,omitempty" max:"256"`
	// Tags keeps the things of sessions that have all of them.
	Tags []string `json:"tags,omitempty" max:"32"`
	// From keeps the things that last changed at or after this time.
	From time.Time `json:"from,omitzero"`
	// To keeps the things that last changed before this time.
	To time.Time `json:"to,omitzero"`
	// Order is asc or desc; default asc for ids and titles, and desc for the rest.
	Order string `json:"order,omitempty" enum:"@sortOrder"`
}

// listDoc is what is said of all lists that can be narrowed.
const listDoc = "Only what belongs to the caller's account is listed and counted; an admin sees every account's. Filters that are given must all fit. A cursor goes on behind the last thing of its page, also if that is gone; a thing that moves in the order meanwhile, because what it is sorted by changed, may be seen twice or not at all."

// checkNarrowing checks the parameters of a list that can be narrowed.
func checkNarrowing(p Params, n *Narrowing) error {
	if err := checkSpan(n.From, n.To); err != nil {
		return err
	}
	return check(p)
}

// checkSpan refuses a time span that nothing can be in.
func checkSpan(from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return fault.Param("from", "must be before to")
	}
	return nil
}
