//go:build unix

// Package s3test runs private temporary object storages for tests: a real server,
// VersityGW, that keeps buckets in a temporary folder and listens on a free loopback port.
//
// The program is taken from PATH or from bin, where scripts/s3.sh puts it. Where it is
// missing, tests skip by name, or fail if the environment has AGENTD_TEST_S3=require. A
// server never outlives its test binary, however that ends: a small script holds a pipe
// from the binary and ends the server when the pipe breaks.
//
// All methods may be called by many goroutines.
package s3test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The keys of all servers.
const (
	AccessKey = "agentdtest"
	SecretKey = "agentd-test-only"
)

// Server is a running object storage.
type Server struct {
	// URL is where it listens.
	URL string
	dir string
	// alive is open as long as the server runs.
	alive io.Closer
}

// common is the server that all tests of a binary share, because they have nothing else in
// common; the script ends it.
var common struct {
	mu     sync.Mutex
	server *Server
	err    error
}

// Shared returns the server that all tests of this binary share, and starts it if need be.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	program := findProgram(tb)
	common.mu.Lock()
	defer common.mu.Unlock()
	if common.server == nil && common.err == nil {
		common.server, common.err = start(program)
	}
	if common.err != nil {
		tb.Fatalf("s3test: %v", common.err)
	}
	return common.server
}

// Bucket makes a bucket with a name of its own.
func (s *Server) Bucket(tb testing.TB) string {
	tb.Helper()
	name := "b-" + strings.ToLower(rand.Text())
	if err := os.Mkdir(filepath.Join(s.dir, "data", name), 0o750); err != nil {
		tb.Fatalf("s3test: %v", err)
	}
	return name
}

// Files returns the files in which the objects of a bucket are, for tests that count or
// damage them.
func (s *Server) Files(tb testing.TB, bucket string) []string {
	tb.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(s.dir, "data", bucket), func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it was deleted meanwhile
		}
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".sgwtmp") {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		tb.Fatalf("s3test: %v", err)
	}
	return files
}

func findProgram(tb testing.TB) string {
	tb.Helper()
	program, err := exec.LookPath("versitygw")
	for dir := "."; err != nil; dir = filepath.Join(dir, "..") {
		abs, absErr := filepath.Abs(dir)
		if absErr != nil || abs == filepath.Dir(abs) {
			break
		}
		if info, statErr := os.Stat(filepath.Join(abs, "bin", "versitygw")); statErr == nil && info.Mode().IsRegular() {
			return filepath.Join(abs, "bin", "versitygw")
		}
		if _, statErr := os.Stat(filepath.Join(abs, "tools")); statErr == nil {
			break // the root of the repository
		}
	}
	if err == nil {
		return program
	}
	if os.Getenv("AGENTD_TEST_S3") == "require" {
		tb.Fatal("s3test: versitygw is neither in PATH nor in bin; run scripts/s3.sh")
	}
	tb.Skip("skipped: all of this test needs an object storage, and versitygw is neither in PATH nor in bin; run scripts/s3.sh")
	return ""
}

// script runs the server until its standard input ends, which the kernel sees to when the
// test binary dies.
const script = `"$1" --quiet --port "$2" posix --sidecar "$3/meta" "$3/data" >"$3/log" 2>&1 &
pid=$!
cat >/dev/null
kill -TERM "$pid" 2>/dev/null
wait "$pid"
rm -rf "$3"`

func start(program string) (*Server, error) {
	dir, err := os.MkdirTemp("", "agentd-s3-")
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"data", "meta"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o750); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	cmd := exec.Command("sh", "-c", script, "sh", program, address, dir) //nolint:noctx // it ends with this process
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + address, dir: dir, alive: in}
	if err := s.answers(); err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "log"))
		return nil, errors.Join(err, errors.New(string(bytes.TrimSpace(said))), s.alive.Close())
	}
	return s, nil
}

// answers waits until the server does.
func (s *Server) answers() error {
	var err error
	for range 1200 {
		var res *http.Response
		if res, err = http.Get(s.URL); err == nil { //nolint:noctx // it ends soon
			_, err = io.Copy(io.Discard, res.Body)
			return errors.Join(err, res.Body.Close())
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("it doesn't answer: %w", err)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
