package main

import (
	"syscall"
	"testing"

	"agentd/command"
	"agentd/fault"
)

// quotasUsed returns what a node says the operator's account uses.
func (p *process) quotasUsed() (sessions, bytes int64) {
	p.t.Helper()
	for _, q := range call[command.GetQuotasResult](p, &command.GetQuotas{}).Quotas {
		switch {
		case q.Account != "":
		case q.Quota == "sessions":
			sessions = q.Used
		case q.Quota == "storedBytes":
			bytes = q.Used
		}
	}
	return sessions, bytes
}

// agree waits until nodes say the same of what is used, with so many sessions.
func agree(t *testing.T, sessions int64, a, b *process) (bytes int64) {
	t.Helper()
	for {
		ofA, bytesA := a.quotasUsed()
		ofB, bytesB := b.quotasUsed()
		if ofA == sessions && ofB == sessions && bytesA == bytesB && bytesA > 0 {
			return bytesA
		}
	}
}

// TestQuotasOfAllNodes: a limit holds for all nodes together, what one of them removes makes
// room at the others, and no figure is lost when all of them are killed.
func TestQuotasOfAllNodes(t *testing.T) {
	f := newFleet(t, "1h", slow, "quotas: {operator: {sessions: 4}}")
	dirA, dirB := f.dir(), f.dir()
	a, b := f.node(dirA), f.node(dirB)
	open := func(p *process) (string, error) {
		var res command.CreateSessionResult
		err := p.client().Do(t.Context(), &command.CreateSession{}, &res)
		return res.SessionID, err
	}
	var ids []string
	for _, p := range []*process{a, b, a, b} {
		id, err := open(p)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for name, p := range map[string]*process{"a": a, "b": b} {
		if _, err := open(p); fault.KindOf(err) != fault.RateLimited {
			t.Errorf("%s opens a fifth session: %v", name, err)
		}
	}
	call[command.DeleteSessionResult](b, &command.DeleteSession{SessionID: ids[1]})
	for {
		_, err := open(a)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.RateLimited {
			t.Fatal(err)
		}
	}
	if _, err := open(b); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("b opens a fifth session after that: %v", err)
	}
	bytes := agree(t, 4, a, b)
	a.stop(syscall.SIGKILL)
	b.stop(syscall.SIGKILL)
	a, b = f.node(dirA), f.node(dirB)
	if again := agree(t, 4, a, b); again < bytes {
		t.Errorf("%d bytes are stored after the start, %d before", again, bytes)
	}
	// What stopped nodes counted stays, under whatever names nodes start then.
	a.stop(syscall.SIGTERM)
	b.stop(syscall.SIGTERM)
	c, d := f.node(f.dir()), f.node(f.dir())
	if again := agree(t, 4, c, d); again < bytes {
		t.Errorf("%d bytes are stored with other nodes, %d before", again, bytes)
	}
	if _, err := open(c); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("another node opens a fifth session: %v", err)
	}
	// What an admin sets at one node holds at the others without their being asked.
	five := int64(5)
	call[command.GetQuotasResult](c, &command.SetQuotas{Operator: true, Limits: &command.QuotaChange{Sessions: &five}})
	for {
		_, err := open(d)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.RateLimited {
			t.Fatal(err)
		}
	}
}
