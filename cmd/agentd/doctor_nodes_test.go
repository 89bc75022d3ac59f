package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/server/oidc/oidctest"
)

// TestLookingChangesNothing: doctor and verify need no write in a database, and leave tables of an
// earlier version as they are, whose missing steps they name.
func TestLookingChangesNothing(t *testing.T) {
	f := newFleet(t, "1h", "repeat: true\nanswers: [{text: done}]\n")
	p := f.node(f.dir())
	p.completed(p.submit("hello"))
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	says := func(wantCode int, text, command string) {
		t.Helper()
		out, errs, code := program(t, command, "--data", f.url, "--state-dir", f.dir(), "--config", f.config)
		if code != wantCode || !strings.Contains(out+errs, text) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", command, code, wantCode, text, out, errs)
		}
	}
	conn := f.connect()
	var database, step, checksum string
	if err := conn.QueryRow(t.Context(), `SELECT current_database()`).Scan(&database); err != nil {
		t.Fatal(err)
	}
	f.executed(conn, fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_read_only = on`, database))
	says(0, "store: postgres at ", "doctor")
	says(0, "no problems found", "verify")
	f.executed(conn, fmt.Sprintf(`ALTER DATABASE %s RESET default_transaction_read_only`, database))
	var version int
	if err := conn.QueryRow(t.Context(), `DELETE FROM agentd.migrations WHERE version = (SELECT max(version) FROM agentd.migrations) RETURNING version, name, checksum`).
		Scan(&version, &step, &checksum); err != nil {
		t.Fatal(err)
	}
	says(0, "pending migrations: "+step, "doctor")
	says(1, "lack "+step, "verify")
	var last, nodes int
	if err := conn.QueryRow(t.Context(), `SELECT max(version), (SELECT count(*) FROM agentd.nodes) FROM agentd.migrations`).Scan(&last, &nodes); err != nil || last != version-1 || nodes != 0 {
		t.Errorf("afterwards the tables have version %d, with %d nodes, %v", last, nodes, err)
	}
	f.executed(conn, `INSERT INTO agentd.migrations (version, name, checksum) VALUES ($1, $2, $3)`, version, step, checksum)
}

// TestDoctorLooksAtWhatNodesNeed: certificates, a replica and an identity provider that can't be
// used are named before a node starts with them.
func TestDoctorLooksAtWhatNodesNeed(t *testing.T) {
	f := newFleet(t, "1h", slow)
	p := f.node(f.dir())
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	issuer, ca, dir := oidctest.Start(t), newAuthority(t), t.TempDir()
	cert, key := ca.sign(dir, "node-a.example", both...)
	finds := func(advertise, replica string, wants ...string) {
		t.Helper()
		config := writeFile(t, t.TempDir(), "c.yaml", fmt.Sprintf("advertise: %s\nreplica: %q\nnode: {tls: {ca: %s, cert: %s, key: %s}}\noidc: {issuer: %q, audience: agentd, grants: [{group: \"*\", role: client}]}\n",
			advertise, replica, ca.file, cert, key, issuer.URL))
		out, errs, _ := program(t, "doctor", "--data", f.url, "--state-dir", filepath.Join(dir, "state"), "--listen", "127.0.0.1:0", "--config", config)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("doctor doesn't say %q:\n%s%s", want, out, errs)
			}
		}
	}
	finds("https://node-a.example:8700", f.url, "ok    node.tls: ", "ok    replica: postgres://", "ok    oidc: "+issuer.URL)
	issuer.Down.Store(true)
	finds("https://node-b.example:8700", "postgres://agentd@127.0.0.1:1/none", "FAIL  node.tls: ", "warn  replica: ", "FAIL  oidc: ")
}
