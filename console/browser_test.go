package console_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/nodetest"
	"agentd/server/oidc/oidctest"
)

// browser returns the program of a Chromium, or ends the test. Chromium's shell comes first:
// it is the same browser without windows, and needs about a third less processor time.
func browser(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("AGENTD_TEST_BROWSER_PATH"); path != "" {
		return path
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("AGENTD_TEST_BROWSER") == "require" {
		t.Fatal("chromium is not in PATH; run scripts/browser.sh")
	}
	t.Skip("skipped: the console's tests need a browser, and chromium is not in PATH; run scripts/browser.sh")
	return ""
}

// TestBrowser drives the console in a real browser: each file test/NAME.test.mjs. Single ones run with
// AGENTD_TEST_PAGES="inbox session", those of them whose names fit with AGENTD_TEST_NAMED="plan|form"; with
// AGENTD_TEST_SCREENS=1 the pictures in docs are taken anew.
func TestBrowser(t *testing.T) {
	inBrowser(t, 100_000)
}

// inBrowser runs the files of test/ with a long session of so many facts at hand.
func inBrowser(t *testing.T, facts int) {
	t.Helper()
	chromium := browser(t)
	node := toolbox(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "agentd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "agentd/cmd/agentd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var env []string
	for _, kv := range nodetest.Environment() {
		if !strings.HasPrefix(kv, "AGENTD_") || strings.HasPrefix(kv, "AGENTD_TEST_") {
			env = append(env, kv)
		}
	}
	env = append(env, "AGENTD_PROGRAM="+program, "AGENTD_BROWSER="+chromium, "AGENTD_FOLDER="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"),
		"AGENTD_LONG_DATA="+filepath.Join(dir, "long"), "AGENTD_LONG_FACTS="+strconv.Itoa(facts))
	env = append(env, certificate(t, dir)...)
	issuer := oidctest.Start(t)
	issuer.Client = oidctest.Client{ID: "console", People: map[string]map[string]any{"ada": {"groups": "team-a"}, "mel": {"groups": "sales"}}}
	env = append(env, "AGENTD_ISSUER="+issuer.URL)
	longSession(t, filepath.Join(dir, "long"), facts)
	accept := exec.CommandContext(t.Context(), program, "data", "accept", "--yes", filepath.Join(dir, "long"))
	accept.Env = env
	if out, err := accept.CombinedOutput(); err != nil {
		t.Fatalf("agentd data accept: %v\n%s", err, out)
	}
	ran := 0
	for result := range runFiles(t, node, env) {
		if result.Name == "" {
			t.Log(result.Log)
			if result.Error != "" {
				t.Error(result.Error)
			}
			continue
		}
		ran++
		t.Run(result.Name, func(t *testing.T) {
			t.Logf("%d ms %s", result.Ms, result.Log)
			if result.Skip != "" {
				t.Skip("skipped: " + result.Skip)
			}
			if result.Error != "" {
				t.Error(result.Error)
			}
		})
	}
	if ran == 0 {
		t.Error("no test ran in the browser")
	}
}

// inBrowserResult is how a test in the browser ended, or without a name what a file of them said beside.
type inBrowserResult struct {
	Name, Error, Skip, Log string
	Ms                     int
}

// runFiles runs the files of test/, two at a time, each in a browser of its own, because tests wait for
// most of their time. Those that take longest begin first.
func runFiles(t *testing.T, node string, env []string) <-chan inBrowserResult {
	t.Helper()
	found, err := filepath.Glob("test/*.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	chosen := strings.FieldsFunc(os.Getenv("AGENTD_TEST_PAGES"), func(r rune) bool { return r == ' ' || r == ',' })
	files := make(chan string, len(found))
	for _, path := range found {
		if name := strings.TrimSuffix(filepath.Base(path), ".test.mjs"); len(chosen) == 0 || slices.Contains(chosen, name) {
			files <- name
		}
	}
	close(files)
	results := make(chan inBrowserResult)
	var lanes sync.WaitGroup
	for range 2 {
		lanes.Go(func() {
			for name := range files {
				runFile(t.Context(), node, name, env, results)
			}
		})
	}
	go func() {
		lanes.Wait()
		close(results)
	}()
	return results
}

func runFile(ctx context.Context, node, name string, env []string, results chan<- inBrowserResult) {
	cmd := exec.CommandContext(ctx, node, "test/run.mjs", name)
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		results <- inBrowserResult{Error: name + ": " + err.Error()}
		return
	}
	failed := false
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r inBrowserResult
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.Name == "" {
			r = inBrowserResult{Log: name + ": " + lines.Text()}
		}
		failed = failed || r.Error != ""
		results <- r
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil && !failed {
		results <- inBrowserResult{Error: fmt.Sprintf("%s: %v\n%s", name, err, stderr.Bytes())}
	}
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns the environment in which the
// tests serve with it and trust it: Node.js by its file, the browser by the digest of its key.
func certificate(t *testing.T, dir string) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	digest := sha256.Sum256(public)
	return []string{
		"AGENTD_CERT=" + certFile, "AGENTD_CERT_KEY=" + keyFile, "AGENTD_CERT_TRUST=" + base64.StdEncoding.EncodeToString(digest[:]),
		"NODE_EXTRA_CA_CERTS=" + certFile,
	}
}
