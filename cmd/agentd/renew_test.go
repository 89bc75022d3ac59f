package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentd/cmd/agentd/internal/config"
	"agentd/server"
)

// TestCertificateIsRenewedOnSIGHUP: the files of the certificate change, the server
// shows the new one, and the commands of this machine still find it.
func TestCertificateIsRenewedOnSIGHUP(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	file := writeFile(t, dir, "c.yaml", "tls: {cert: "+cert+", key: "+key+"}\n")
	p := start(t, filepath.Join(dir, "data"), "--config", file)
	shown := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return certSum(conn.ConnectionState().PeerCertificates[0].Raw)
	}
	first := shown()
	running, err := (&app{env: map[string]string{"XDG_STATE_HOME": stateHome}}).remote(t.Context(), &config.Config{Data: p.data}) // a command that goes on
	if err != nil || running == nil {
		t.Fatalf("%v, %v", running, err)
	}
	whole, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, filepath.Base(key), "no key")
	p.signal(syscall.SIGHUP)
	p.wait("the configuration was not reloaded")
	if shown() != first {
		t.Error("files that can't be used took the certificate away")
	}
	writeFile(t, dir, filepath.Base(key), string(whole))
	certificate(t, dir) // under the same names
	p.signal(syscall.SIGHUP)
	p.wait("certificate renewed")
	p.wait("configuration reloaded")
	if shown() == first {
		t.Error("the old certificate is still shown")
	}
	if out, errs, code := program(t, "run", "--data", p.data, "hello"); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	running.http.CloseIdleConnections() // as a minute without a request does
	if _, err := running.status(t.Context()); err != nil {
		t.Errorf("a command that was running: %v", err)
	}
	p.stop(syscall.SIGTERM)
}

// TestTheNoteFollowsTheCertificate: if the note about the server couldn't be written,
// the next signal writes it, although the certificate is the same then.
func TestTheNoteFollowsTheCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := certificate(t, dir)
	cert, err := server.LoadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	c := &config.Config{StateDir: state}
	c.TLS.Cert, c.TLS.Key = certFile, keyFile
	s := &serving{loaded: &config.Loaded{Config: c}, log: slog.New(slog.DiscardHandler), cert: cert, note: &serverNote{CertSHA256: certSum(cert.Leaf())}}
	certificate(t, dir) // under the same names
	if err := s.renewCertificate(); err == nil {
		t.Fatal("a note was written into a directory that isn't there")
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.renewCertificate(); err != nil {
		t.Fatal(err)
	}
	if note, err := readNote(state); err != nil || note == nil || note.CertSHA256 != certSum(cert.Leaf()) {
		t.Errorf("the note is %+v, %v", note, err)
	}
}

// TestStdioOverAServerDeliversBeforeItEnds: what is durable when standard input ends
// arrives, also where a server is asked, and nothing that was not asked for.
func TestStdioOverAServerDeliversBeforeItEnds(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	turn := p.submit("hello")
	p.completed(turn)
	last, err := p.client().Events(t.Context(), turn.SessionID, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		cmd := self(t, "stdio", "--data", p.data)
		subscribe := fmt.Sprintf(`{"jsonrpc":"2.0","id":%%d,"method":"subscribe","params":{"sessionId":%q%%s}}`, turn.SessionID)
		cmd.Stdin = strings.NewReader("[" + fmt.Sprintf(subscribe, 1, "") + "]\n" +
			fmt.Sprintf(subscribe, 2, `,"types":["turn.completed"],"snapshot":true`) + "\n" +
			`{"jsonrpc":"2.0","id":3,"method":"subscribe","params":{}}`)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		events, answers := bytes.Count(out, []byte(`"method":"event"`)), bytes.Count(out, []byte(`"result":`))
		if want := int(last.LastSequence) + 1; events < want || answers != 3 || bytes.Count(out, []byte(`"method":"snapshot"`)) != 1 {
			t.Fatalf("%d events, want at least %d; %d answers, want 3:\n%s", events, want, answers, out)
		}
	}
	p.stop(syscall.SIGTERM)
}
