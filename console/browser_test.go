package console_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/internal/nodetest"
	"agentd/server/oidc/oidctest"
)

// browser returns the program of a Chromium, or ends the test.
func browser(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("AGENTD_TEST_BROWSER_PATH"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
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
	cmd := exec.CommandContext(t.Context(), node, "test/run.mjs")
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ran := 0
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var result struct {
			Name, Error, Skip, Log string
			Ms                     int
		}
		if json.Unmarshal(lines.Bytes(), &result) != nil {
			t.Log(lines.Text())
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
	if err := cmd.Wait(); err != nil || ran == 0 {
		t.Errorf("the tests in the browser: %v, %d ran\n%s", err, ran, stderr.Bytes())
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
