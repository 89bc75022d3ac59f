package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/cmd/agentd/internal/config"
	"agentd/command"
)

// process is a server that runs as a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	data string
	url  string
	// lines delivers the log.
	lines chan string
	log   sync.WaitGroup
}

// start runs "agentd serve" and waits for its line.
func start(t *testing.T, data string, args ...string) *process {
	t.Helper()
	return startProgram(t, "", data, args...)
}

// startProgram does the same with a program of another version, if one is named.
func startProgram(t *testing.T, path, data string, args ...string) *process {
	t.Helper()
	p := &process{t: t, data: data, lines: make(chan string, 10_000)}
	p.cmd = programOr(t, path, append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, args...)...)
	p.begin()
	return p
}

// begin runs the command and waits for the line that says where it listens.
func (p *process) begin() {
	t := p.t
	t.Helper()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	logged, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	p.log.Go(func() { p.scan(logged) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server didn't get ready: %v\n%s", err, p.remainingLog())
	}
	if p.url, err = between(line, "agentd listens on ", " (data "); err != nil {
		t.Fatal(err)
	}
}

func (p *process) scan(logged io.Reader) {
	defer close(p.lines)
	s := bufio.NewScanner(logged)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		select {
		case p.lines <- s.Text():
		default: // nobody reads so many
		}
	}
}

// remainingLog returns the log from here to its end.
func (p *process) remainingLog() string {
	var all []string
	for line := range p.lines {
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// logSoFar returns the log up to here, as far as nobody read it.
func (p *process) logSoFar() string {
	var all []string
	for {
		select {
		case line, more := <-p.lines:
			if more {
				all = append(all, line)
				continue
			}
		default:
		}
		return strings.Join(all, "\n")
	}
}

// wait waits for a line of the log that contains a text.
func (p *process) wait(text string) string {
	p.t.Helper()
	for line := range p.lines {
		if strings.Contains(line, text) {
			return line
		}
	}
	p.t.Fatalf("the log ended without %q", text)
	return ""
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// stop sends a signal and returns the exit code.
func (p *process) stop(sig os.Signal) int {
	p.t.Helper()
	p.signal(sig)
	p.log.Wait()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// end ends the process if nobody did. One of several nodes over a database gives its
// sessions back, so that they can be run again at once.
func (p *process) end() {
	if p.cmd.ProcessState == nil {
		sig := os.Kill
		if slices.ContainsFunc(p.cmd.Args, config.IsDatabase) {
			sig = syscall.SIGTERM
		}
		_ = p.cmd.Process.Signal(sig) // it may be gone already
	}
	p.log.Wait()
	_ = p.cmd.Wait() // of one that was waited for there is nothing to know
}

func (p *process) client() *client.Client {
	p.t.Helper()
	token, err := os.ReadFile(filepath.Join(p.data, adminTokenFile))
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := client.New(p.url, &client.Options{Token: strings.TrimSpace(string(token))})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

func (p *process) submit(text string) *command.SubmitTurnResult {
	p.t.Helper()
	r, err := client.Call[command.SubmitTurnResult](p.t.Context(), p.client(), submitParams(p.t, text))
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func submitParams(t *testing.T, text string) *command.SubmitTurn {
	t.Helper()
	p, err := (&turnFlags{}).params(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// completed follows a turn to its end.
func (p *process) completed(r *command.SubmitTurnResult) {
	p.t.Helper()
	for e, err := range p.client().Follow(p.t.Context(), r.SessionID, r.Sequence, nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		if e.Type == "turn.completed" {
			return
		}
		if e.Type == "turn.failed" {
			p.t.Fatalf("the turn failed: %s", e.Data)
		}
	}
}

// program runs one command as a process and returns its output and exit code.
func program(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := self(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestServeStopsWhileItBegins asks for the end as soon as the server says that it
// is ready, when its doors may not be open yet.
func TestServeStopsWhileItBegins(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for range 30 {
		p := start(t, data)
		if code := p.stop(syscall.SIGTERM); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
}

func TestServeStopsOnSIGTERM(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	p.completed(p.submit("hello"))
	for name, want := range map[string]os.FileMode{"": 0o700, adminTokenFile: 0o600, noteFile: 0o600, "lock": 0o600} {
		info, err := os.Stat(filepath.Join(data, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %q is %v (%v), want %v", name, info.Mode().Perm(), err, want)
		}
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if exists(filepath.Join(data, noteFile)) {
		t.Error("the note about the server is still there")
	}
	if out, errs, code := program(t, "verify", "--data", data); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

func TestServeStopsInMidTurn(t *testing.T) {
	dir := t.TempDir()
	slow := writeFile(t, dir, "slow.script", "answers:\n  - {text: a b, delay: 1h}\n")
	config := writeFile(t, dir, "slow.yaml", "providers:\n  - {id: play, kind: script, script: "+slow+", models: [{id: m}]}\n")
	data := filepath.Join(dir, "data")
	p := start(t, data, "--config", config)
	r := p.submit("hello")
	for e, err := range p.client().Follow(t.Context(), r.SessionID, 0, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "model.requested" {
			break
		}
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	// The next server, which answers at once, takes the turn up.
	p = start(t, data)
	p.completed(r)
	p.stop(syscall.SIGTERM)
}

func TestSecondServerIsRefused(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	_, errs, code := program(t, "serve", "--data", p.data, "--listen", "127.0.0.1:0")
	if want := fmt.Sprintf("is in use by process %d", p.cmd.Process.Pid); code != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit code %d, want 1 and %q:\n%s", code, want, errs)
	}
	host := strings.TrimPrefix(p.url, "http://")
	_, errs, code = program(t, "serve", "--data", filepath.Join(t.TempDir(), "other"), "--listen", host)
	if code != 1 || !strings.Contains(errs, "can't listen on "+host) || !strings.Contains(errs, "address already in use") {
		t.Errorf("exit code %d, want 1 and the address:\n%s", code, errs)
	}
	p.stop(syscall.SIGTERM)
}

// TestCommandsReachAServerOnAllAddresses: the commands of this machine find it by
// its data directory, as every other.
func TestCommandsReachAServerOnAllAddresses(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0"} {
		p := start(t, filepath.Join(t.TempDir(), "data"), "--insecure", "--listen", listen)
		for _, args := range [][]string{{"run", "--data", p.data, "hello"}, {"status", "--data", p.data}} {
			if out, errs, code := program(t, args...); code != 0 {
				t.Errorf("%s, %v: exit code %d\n%s%s", listen, args, code, out, errs)
			}
		}
		p.stop(syscall.SIGTERM)
	}
}

// TestTakenSocket: whoever can't have the socket is told why, and how to go on.
func TestTakenSocket(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	p := start(t, filepath.Join(dir, "data"), "--socket", socket)
	for path, want := range map[string]string{socket: "another process is listening there", writeFile(t, dir, "file", "x"): "isn't a socket has this name"} {
		_, errs, code := program(t, "serve", "--data", filepath.Join(dir, "other"), "--socket", path)
		if code != 1 || !strings.Contains(errs, want) || !strings.Contains(errs, "--socket names another path") || strings.Contains(errs, "%!") {
			t.Errorf("exit code %d, want 1 and %q:\n%s", code, want, errs)
		}
	}
	p.stop(syscall.SIGTERM)
}

// TestKilledServer kills a server under load: everything that it acknowledged is
// there afterwards and comes to its end, and the note it left misleads nobody.
func TestKilledServer(t *testing.T) { killRounds(t, 3) }

func TestLongKilledServer(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("30 rounds of kill -9 run only with AGENTD_TEST_LONG")
	}
	killRounds(t, 30)
}

func killRounds(t *testing.T, rounds int) {
	data := filepath.Join(t.TempDir(), "data")
	var all []*command.SubmitTurnResult
	for range rounds {
		p := start(t, data)
		all = append(all, underLoad(t, p)...)
		p.stop(syscall.SIGKILL)
		if out, errs, code := program(t, "sessions", "--all", "--data", data); code != 0 || strings.Count(out, "sess_") < len(all) {
			t.Fatalf("sessions after kill -9: %d\n%s%s", code, out, errs)
		}
	}
	p := start(t, data)
	for _, r := range all {
		p.completed(r)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out, errs, code := program(t, "verify", "--data", data); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// underLoad submits turns from several goroutines until enough are acknowledged,
// and returns those while others are still under way.
func underLoad(t *testing.T, p *process) []*command.SubmitTurnResult {
	ctx, cancel := context.WithCancel(t.Context())
	acked := make(chan *command.SubmitTurnResult, 1000)
	var workers sync.WaitGroup
	c := p.client()
	for range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				r, err := client.Call[command.SubmitTurnResult](ctx, c, submitParams(t, "hello"))
				if err != nil {
					continue // it has too much to do, or is dead already
				}
				acked <- r
			}
		})
	}
	var got []*command.SubmitTurnResult
	for range 20 {
		got = append(got, <-acked)
	}
	p.signal(syscall.SIGKILL)
	cancel()
	workers.Wait()
	close(acked)
	for r := range acked {
		got = append(got, r)
	}
	return got
}

func TestReloadOnSIGHUP(t *testing.T) {
	dir := t.TempDir()
	config := writeFile(t, dir, "c.yaml", "log: {level: info}\n")
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	writeFile(t, dir, "c.yaml", "log: {level: debug}\nruntimeId: another\n")
	p.signal(syscall.SIGHUP)
	if line := p.wait("changed setting needs a restart"); !strings.Contains(line, "runtimeId") {
		t.Errorf("log line %s", line)
	}
	p.wait("setting reloaded")
	p.wait("configuration reloaded")
	writeFile(t, dir, "c.yaml", "log: {level: debug}\npermissions: {mode: plan, rules: [{decision: deny, tool: shell}]}\n")
	p.signal(syscall.SIGHUP)
	p.wait("configuration reloaded")
	policy, err := client.Call[command.PolicyResult](t.Context(), p.client(), &command.GetPolicy{})
	if err != nil || policy.Mode != "plan" || len(policy.Rules) != 1 || policy.Rules[0].Tool != "shell" {
		t.Errorf("the policy is %+v, %v", policy, err)
	}
	writeFile(t, dir, "c.yaml", "permissions: {rules: [{decision: deny, tool: \"[\"}]}\n")
	p.signal(syscall.SIGHUP)
	if line := p.wait("the configuration was not reloaded"); !strings.Contains(line, "permissions.rules") {
		t.Errorf("log line %s", line)
	}
	writeFile(t, dir, "c.yaml", "lgo: {}\n")
	p.signal(syscall.SIGHUP)
	if line := p.wait("the configuration was not reloaded"); !strings.Contains(line, "c.yaml:1:1: lgo: unknown key") {
		t.Errorf("log line %s", line)
	}
	p.completed(p.submit("still there"))
	p.stop(syscall.SIGTERM)
}

func TestSIGQUITDumpsAndGoesOn(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	p.signal(syscall.SIGQUIT)
	p.wait("SIGQUIT: ")
	p.wait("goroutine ")
	p.completed(p.submit("still there"))
	if code := p.stop(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSIGQUITDumpsDuringAStop: a stop that takes long, here for a request whose body
// doesn't come, can be looked into.
func TestSIGQUITDumpsDuringAStop(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST /v1/commands/list_sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", p.token()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 100)); err != nil { // the body is wanted
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	p.wait(`"stopping"`)
	p.signal(syscall.SIGQUIT)
	p.wait("SIGQUIT: ")
	if _, err := io.WriteString(c, "{}"); err != nil {
		t.Error(err)
	}
	p.wait(`"stopped"`)
}

// certificate makes a self-signed certificate that no one trusts.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = writeFile(t, dir, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	key = writeFile(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})))
	return cert, key
}

// TestOwnServerInTheForeground: where "agentd serve" holds a person's own data, all of
// their commands reach it, however it listens.
func TestOwnServerInTheForeground(t *testing.T) {
	cert, key := certificate(t, t.TempDir())
	for name, config := range map[string]string{
		"TCP":            "",
		"TLS":            "tls: {cert: " + cert + ", key: " + key + "}\n",
		"socket":         "socket: PLACE\n",
		"socket and TLS": "socket: PLACE\ntls: {cert: " + cert + ", key: " + key + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			me := newPerson(t)
			file := filepath.Join(me.home, ".config", "agentd", "config.yaml")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			place := filepath.Join(t.TempDir(), "s")
			writeFile(t, filepath.Dir(file), "config.yaml", string(text)+strings.ReplaceAll(config, "PLACE", place))
			me.output("run", "in the background") // a server that is taken over from
			p := &process{t: t, data: me.serverNote().URL, lines: make(chan string, 10_000), cmd: me.command("serve", "--listen", "127.0.0.1:0")}
			if strings.Contains(config, "socket") {
				p.cmd = me.command("serve")
			}
			p.begin()
			for _, args := range [][]string{{"run", "in the foreground"}, {"sessions"}, {"status"}, {"doctor"}, {"why", "last"}} {
				me.output(args...)
			}
			if out := me.output("daemon", "status"); !strings.Contains(out, "started with agentd serve") {
				t.Errorf("daemon status:\n%s", out)
			}
			pipe := me.pipe("stdio")
			var list struct {
				Sessions []json.RawMessage `json:"sessions"`
			}
			if pipe.call("list_sessions", map[string]any{}, &list); len(list.Sessions) != 2 {
				t.Errorf("%d sessions over stdio", len(list.Sessions))
			}
			p.stop(syscall.SIGTERM)
			me.output("run", "in the background again")
		})
	}
}

func TestCommandsOverTLSAndSocket(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	for name, config := range map[string]string{
		"TLS":            "tls: {cert: " + cert + ", key: " + key + "}\n",
		"socket":         "socket: " + filepath.Join(dir, "s") + "\n",
		"socket and TLS": "socket: " + filepath.Join(dir, "t") + "\ntls: {cert: " + cert + ", key: " + key + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			p := start(t, data, "--config", writeFile(t, t.TempDir(), "c.yaml", config))
			for _, args := range [][]string{{"run", "--data", data, "hello"}, {"status", "--data", data}, {"sessions", "--data", data}} {
				if out, errs, code := program(t, args...); code != 0 {
					t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
				}
			}
			cmd := self(t, "stdio", "--data", data)
			cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"list_sessions"}`)
			out, err := cmd.Output()
			if err != nil || !bytes.Contains(out, []byte(`"id":1,"result"`)) {
				t.Errorf("stdio: %v\n%s", err, out)
			}
			p.stop(syscall.SIGTERM)
		})
	}
}

// TestInterruptedRun stops "agentd run" in mid-turn: the turn is interrupted on
// the server too.
func TestInterruptedRun(t *testing.T) {
	dir := t.TempDir()
	slow := writeFile(t, dir, "slow.script", "answers:\n  - {text: a b, delay: 1h}\n")
	config := writeFile(t, dir, "slow.yaml", "providers:\n  - {id: play, kind: script, script: "+slow+", models: [{id: m}]}\n")
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	cmd := self(t, "run", "--json", "--data", p.data, "hello")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var envelope struct{ Type, SessionID, TurnID string }
	for envelope.Type != "model.requested" && lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &envelope); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d, want 1", cmd.ProcessState.ExitCode())
	}
	for e, err := range p.client().Follow(t.Context(), envelope.SessionID, 0, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "turn.failed" {
			break
		}
	}
	p.stop(syscall.SIGTERM)
}
