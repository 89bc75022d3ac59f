package conversation

import (
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
	"agentd/permission"
	"agentd/state"
)

// followPlan ends the mode plan of the next turns once a plan was approved, here or
// in another client: the turns after the plan don't plan again.
func (c *Conversation) followPlan(e *event.Event) {
	p, ok := e.Payload.(*event.PermissionResolved)
	if ok && p.PermissionMode != "" && e.ThreadID == c.thread && e.Sequence > c.caughtUp && c.options.PermissionMode == permission.ModePlan {
		c.options.PermissionMode = p.PermissionMode
	}
}

// followSession tells what others did to the session itself, and reports whether it is
// gone.
func (c *Conversation) followSession(e *event.Event) (gone bool) {
	switch p := e.Payload.(type) {
	case *event.SessionUpdated:
		if p.Title != nil {
			c.title = *p.Title
		}
		if e.Sequence > c.caughtUp {
			c.showUpdate(p)
		}
	case *event.SessionDeleted:
		if p.DeletedSessionID == c.session {
			c.sessionGone("the session was deleted")
			return true
		}
	}
	return false
}

// showUpdate tells how the session changed, as far as people see it in lists.
func (c *Conversation) showUpdate(p *event.SessionUpdated) {
	if p.Title != nil {
		c.View.Info("the session is called " + terminal.Plain(*p.Title) + " now")
	}
	switch p.Status {
	case state.SessionArchived:
		c.View.Info("the session was archived; what you say still goes to it, and /new begins another")
	case "open":
		if p.ChangedBy != nil { // the runtime itself tells of a recovery
			c.View.Info("the session is no longer archived")
		}
	}
}

// sessionGone goes on without the session.
func (c *Conversation) sessionGone(why string) {
	c.View.Warn(why + "; a new one begins with the next turn")
	c.leaveSession()
	c.View.Refresh()
}
