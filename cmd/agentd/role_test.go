package main

import (
	"net/url"
	"strings"
	"testing"
)

// TestRoleWithoutTheRightToCreate runs a node whose role may read and write the tables and make
// none: turns end, and the log says once what is missing and what to grant.
func TestRoleWithoutTheRightToCreate(t *testing.T) {
	f := newFleet(t, "1h", "answers:\n  - {text: done}\n")
	owner := f.node(f.dir())
	owner.completed(owner.submit("hello"))
	conn := f.connect()
	role := "limited_" + strings.ToLower(strings.TrimSpace(string(f.token))[7:17])
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD 'limited'",
		"GRANT USAGE ON SCHEMA agentd TO " + role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA agentd TO " + role,
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA agentd TO " + role,
		"DELETE FROM agentd.months",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "limited")
	limited := *f
	limited.url = u.String()
	p := limited.node(f.dir())
	for range 3 {
		p.completed(p.submit("hello"))
	}
	owner.completed(owner.submitTo(p.submit("hello").SessionID))
	if got := (&storm{t: t, p: p}).figures().by["agentd_database_month_table"]; got != 0 {
		t.Errorf("agentd_database_month_table is %v", got)
	}
	p.end()
	if out, errs, _ := program(t, "doctor", "--data", limited.url, "--state-dir", f.dir(), "--config", f.config); !strings.Contains(out, "GRANT CREATE ON SCHEMA agentd") {
		t.Errorf("agentd doctor says:\n%s%s", out, errs)
	}
	log := p.remainingLog()
	if n := strings.Count(log, "there is no table for this month"); n != 1 || !strings.Contains(log, "GRANT CREATE ON SCHEMA agentd") {
		t.Errorf("the log says it %d times:\n%s", n, log)
	}
}
