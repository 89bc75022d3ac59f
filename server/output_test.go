package server_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agentd/fault"
)

func TestOutputs(t *testing.T) {
	r := run(t, nil)
	ref := "sha256:0123"
	get := func(method string, header ...string) answer {
		r.fake.putOutput(ref, "text/plain; charset=utf-8", []byte("0123456789"))
		req := r.request(method, "/v1/outputs/"+url.PathEscape(ref), "")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return r.sendRequest(req)
	}
	whole := get("GET")
	tag := whole.header.Get("ETag")
	if whole.status != 200 || string(whole.body) != "0123456789" || tag == "" || whole.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Fatalf("%d %s %v", whole.status, whole.body, whole.header)
	}
	if !strings.Contains(whole.header.Get("Content-Security-Policy"), "sandbox") {
		t.Error("a browser may run the content")
	}
	for _, c := range []struct {
		name, method string
		header       []string
		status       int
		body         string
	}{
		{"a range", "GET", []string{"Range", "bytes=2-4"}, 206, "234"},
		{"an open range", "GET", []string{"Range", "bytes=7-"}, 206, "789"},
		{"the end", "GET", []string{"Range", "bytes=-2"}, 206, "89"},
		{"a range of the same content", "GET", []string{"Range", "bytes=0-0", "If-Range", tag}, 206, "0"},
		{"a range of other content", "GET", []string{"Range", "bytes=0-0", "If-Range", `"other"`}, 200, "0123456789"},
		{"what the client has", "GET", []string{"If-None-Match", tag}, 304, ""},
		{"head", "HEAD", nil, 200, ""},
		{"a range in another unit", "GET", []string{"Range", "lines=1-2"}, 200, "0123456789"},
		{"a unit in capitals", "GET", []string{"Range", "Bytes=2-4"}, 206, "234"},
		{"a position of many digits", "GET", []string{"Range", "bytes=8-99999999999999999999999"}, 206, "89"},
		{"an end of many digits", "GET", []string{"Range", "bytes=-99999999999999999999999"}, 206, "0123456789"},
		{"a range and the last zero bytes", "GET", []string{"Range", "bytes=2-4,-0"}, 206, "234"},
		{"the content that the client means", "GET", []string{"If-Match", tag}, 200, "0123456789"},
	} {
		if a := get(c.method, c.header...); a.status != c.status || string(a.body) != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.name, a.status, a.body, c.status, c.body)
		}
	}
	for _, bad := range []string{"bytes=10-", "bytes=5-2", "bytes=x", "bytes=-0", "bytes=99999999999999999999999-"} {
		a := get("GET", "Range", bad)
		if p := a.problem(t); a.status != 416 || p.Code != "range_not_satisfiable" {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	other := get("GET", "If-Match", `"other"`)
	if p := other.problem(t); other.status != 409 || !strings.Contains(p.Detail, "If-Match") {
		t.Errorf("other content than the client means: %d %s", other.status, other.body)
	}
	if a := get("GET", "Range", "bytes=10-"); a.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("416 doesn't say the size: %v", a.header)
	}
}

func TestReferencesWithTricks(t *testing.T) {
	r := run(t, nil)
	r.fake.putOutput("x/y", "", []byte("ok"))
	if a := r.sendRequest(r.request("GET", "/v1/outputs/x%2Fy", "")); a.status != 200 || a.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("an escaped slash: %d %v", a.status, a.header)
	}
	for _, ref := range []string{
		"none", "..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%2e%2e/x", "a/../b", "%00", "a%0d%0ab", "..%5c..%5cx", strings.Repeat("a", 600),
	} {
		req := r.request("GET", "/", "")
		req.URL.Opaque = "/v1/outputs/" + ref
		a := r.sendRequest(req)
		if p := a.problem(t); a.status != 404 || p.Code != "not_found" {
			t.Errorf("%s: %d %s", ref, a.status, a.body)
		}
	}
}

// cutContent can't be read from a position on.
type cutContent struct {
	io.ReadSeeker
	from int64
	err  error
}

func (c *cutContent) Close() error { return nil }

func (c *cutContent) Read(p []byte) (int, error) {
	at, err := c.Seek(0, io.SeekCurrent)
	if err != nil || at >= c.from {
		return 0, errors.Join(err, c.err)
	}
	return c.ReadSeeker.Read(p[:min(int64(len(p)), c.from-at)])
}

// TestOutputsThatCantBeRead: where a content can't be read from where the answer begins, the
// answer says why; one that breaks off later is too short for its length.
func TestOutputsThatCantBeRead(t *testing.T) {
	r := run(t, nil)
	ref := "sha256:0123"
	get := func(from int64, header ...string) *http.Request {
		away := fault.New(fault.Unavailable, "the content is away")
		away.RetryAfter = 2 * time.Second
		r.fake.putOutput(ref, "text/plain", []byte("0123456789"))
		out := r.fake.outputs[ref]
		out.Content = &cutContent{bytes.NewReader([]byte("0123456789")), from, away}
		req := r.request("GET", "/v1/outputs/"+url.PathEscape(ref), "")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return req
	}
	for _, c := range []struct {
		from  int64
		asked string
	}{{0, ""}, {3, "bytes=3-4"}, {0, "bytes=0-1,3-4"}} {
		a := r.sendRequest(get(c.from, "Range", c.asked))
		if p := a.problem(t); a.status != 503 || p.Detail != "the content is away" || a.header.Get("Retry-After") != "2" || a.header.Get("ETag") != "" || a.header.Get("Content-Range") != "" {
			t.Errorf("%q: %d %s %v", c.asked, a.status, a.body, a.header)
		}
	}
	if a := r.sendRequest(get(3, "Range", "bytes=0-2")); a.status != 206 || string(a.body) != "012" {
		t.Errorf("a range before: %d %s", a.status, a.body)
	}
	res, err := http.DefaultClient.Do(get(3))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); string(got) != "012" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("one that breaks off: %q, %v", got, err)
	}
}
