package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/internal/s3test"
)

// bucketConfig writes a configuration with a bucket, whose secret key may be a wrong one.
func bucketConfig(t *testing.T, endpoint, bucket, secret string) string {
	t.Helper()
	return writeFile(t, t.TempDir(), "c.yaml", bucketSettings(t, endpoint, bucket, secret))
}

// bucketSettings returns the settings of a bucket.
func bucketSettings(t *testing.T, endpoint, bucket, secret string) string {
	t.Helper()
	dir := t.TempDir()
	return fmt.Sprintf("blobs: {s3: {endpoint: %q, bucket: %q, prefix: here, from: 1KiB, accessKeyFile: %q, secretKeyFile: %q}}\n",
		endpoint, bucket, writeFile(t, dir, "access", s3test.AccessKey), writeFile(t, dir, "secret", secret))
}

// TestServeWithABucket runs two nodes over a database with a bucket: what one stored the
// other reads, the tools say how it stands, and a node that doesn't know the bucket, or has
// wrong keys, doesn't start.
func TestServeWithABucket(t *testing.T) {
	server := s3test.Shared(t)
	url, bucket, state := pgtest.Shared(t).Database(t), server.Bucket(t), t.TempDir()
	config := bucketConfig(t, server.URL, bucket, s3test.SecretKey)
	p := start(t, state, "--data", url, "--state-dir", state, "--config", config)
	p.completed(p.submit(strings.Repeat("a long question ", 1000)))
	// The mark, and at least the question.
	for len(server.Files(t, bucket)) < 2 {
		time.Sleep(10 * time.Millisecond) // nothing tells when it is moved
	}
	for _, file := range server.Files(t, bucket) {
		if !strings.Contains(file, "/here/") {
			t.Errorf("%s is not below the prefix", file)
		}
	}
	with := func(config, command string, more ...string) []string {
		return append([]string{command, "--data", url, "--state-dir", t.TempDir(), "--config", config}, more...)
	}
	says := func(want int, text string, args []string) {
		t.Helper()
		out, errs, code := program(t, args...)
		if code != want || !strings.Contains(out+errs, text) {
			t.Errorf("%v: %d, want %d with %q\n%s%s", args, code, want, text, out, errs)
		}
		if strings.Contains(out+errs, s3test.SecretKey) || strings.Contains(out+errs, "not-the-secret") {
			t.Errorf("%v tells the key", args)
		}
	}
	says(0, "", with(config, "verify"))
	says(0, `"blobs":{"location":"s3://`, []string{"status", "--data", url, "--state-dir", state, "--config", config, "--json"})
	wrong := bucketConfig(t, server.URL, bucket, "not-the-secret")
	away := bucketConfig(t, "http://127.0.0.1:1", bucket, s3test.SecretKey)
	none := writeFile(t, t.TempDir(), "none.yaml", "{}\n")
	says(1, "set blobs.s3 as the other nodes have it", with(none, "verify"))
	says(1, "the object storage refuses", with(wrong, "verify"))
	says(1, "SignatureDoesNotMatch", with(wrong, "doctor"))
	says(1, "doesn't answer", with(away, "doctor"))
	if out, errs, _ := program(t, with(config, "doctor")...); !strings.Contains(out, "/here/ answers") {
		t.Errorf("doctor: %s%s", out, errs)
	}
	// Without its bucket a node goes on; what was moved can't be read.
	says(1, "blob", with(away, "verify"))
	other := start(t, filepath.Join(state, "other"), "--data", url, "--state-dir", filepath.Join(state, "other"), "--config", away)
	other.completed(other.submit(strings.Repeat("another long question ", 1000)))
	if code := other.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	says(0, "", with(config, "verify"))
	says(exitUsage, "blobs.s3 is for facts in a database", []string{"run", "--data", t.TempDir(), "--config", config, "hello"})
}
