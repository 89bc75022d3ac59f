package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"agentd/command"
)

// unpack returns an answer's body as it was before it was compressed.
func unpack(t *testing.T, a answer) string {
	t.Helper()
	var in io.Reader = bytes.NewReader(a.body)
	switch c := a.header.Get("Content-Encoding"); c {
	case "":
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		in = z
	case "zstd":
		z, err := zstd.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		in = z
	default:
		t.Fatalf("Content-Encoding is %q", c)
	}
	body, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// getCoded asks for a path and says what is accepted.
func (r *running) getCoded(method, path string, accept ...string) answer {
	r.t.Helper()
	req := r.request(method, path, "")
	for _, a := range accept {
		req.Header.Add("Accept-Encoding", a)
	}
	return r.sendRequest(req)
}

func TestAnswersAreCompressedAsTheClientAccepts(t *testing.T) {
	r := run(t, nil)
	r.fake.open("sess_1", "a")
	r.fake.deltas("sess_1", 50)
	path := "/v1/sessions/sess_1/events"
	plain := r.getPath(path)
	for _, c := range []struct {
		accept []string
		want   string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"gzip"}, "gzip"},
		{[]string{"x-gzip"}, "gzip"},
		{[]string{"GZIP"}, "gzip"},
		{[]string{"zstd"}, "zstd"},
		{[]string{"gzip, deflate, br, zstd"}, "zstd"},
		{[]string{"gzip", "zstd"}, "zstd"},
		{[]string{"gzip;q=1.0, zstd;q=0.5"}, "gzip"},
		{[]string{"gzip;q=0, zstd;q=0.001"}, "zstd"},
		{[]string{"gzip;q=0.5, identity"}, ""},
		{[]string{"gzip;q=0.5, identity;q=0.5"}, "gzip"},
		{[]string{"gzip;q=0, zstd;q=0"}, ""},
		{[]string{"*"}, "gzip"},
		{[]string{"*;q=0"}, ""},
		{[]string{"*;q=0, zstd"}, "zstd"},
		{[]string{"*, gzip;q=0"}, ""},
		{[]string{"identity;q=0, gzip"}, "gzip"},
		{[]string{"identity;q=0"}, ""}, // nothing fits: uncompressed is better than nothing
		{[]string{"br, deflate"}, ""},
		{[]string{"gzip;q=nonsense"}, "gzip"},
		{[]string{"gzip;q=NaN"}, ""},
		{[]string{";;;,,, =q"}, ""},
	} {
		a := r.getCoded(http.MethodGet, path, c.accept...)
		if got := a.header.Get("Content-Encoding"); got != c.want {
			t.Errorf("Accept-Encoding %q: got %q, want %q", c.accept, got, c.want)
		}
		if unpack(t, a) != string(plain.body) {
			t.Errorf("Accept-Encoding %q: another body", c.accept)
		}
		if c.want != "" && len(a.body) > len(plain.body)/4 {
			t.Errorf("%s: %d bytes of %d", c.want, len(a.body), len(plain.body))
		}
		if vary := strings.Join(a.header.Values("Vary"), ", "); vary != "Accept, Accept-Encoding" {
			t.Errorf("Vary is %q", vary)
		}
		if got := a.header.Get("Content-Length"); got != fmt.Sprint(len(a.body)) {
			t.Errorf("Content-Length is %s, want %d", got, len(a.body))
		}
	}
}

func TestSmallAnswersAreCompressedOnlyForClientsThatInsist(t *testing.T) {
	r := run(t, nil)
	for accept, want := range map[string]string{"gzip": "", "gzip, identity;q=0": "gzip", "zstd, *;q=0": "zstd"} {
		for path, status := range map[string]int{"/healthz": 200, "/v1/nothing": 404} {
			a := r.getCoded(http.MethodGet, path, accept)
			if a.status != status || a.header.Get("Content-Encoding") != want || !strings.HasPrefix(unpack(t, a), "{") {
				t.Errorf("%s with %q: %d, coding %q, body %q", path, accept, a.status, a.header.Get("Content-Encoding"), a.body)
			}
			if a.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: Vary is %q", path, a.header.Get("Vary"))
			}
		}
	}
}

func TestCompressedDocumentsHaveTagsOfTheirOwn(t *testing.T) {
	r := run(t, nil)
	const path = "/v1/openapi.json"
	plain, coded := r.getPath(path), r.getCoded(http.MethodGet, path, "zstd")
	if unpack(t, coded) != string(plain.body) || coded.header.Get("ETag") == plain.header.Get("ETag") {
		t.Fatalf("tags %s and %s", plain.header.Get("ETag"), coded.header.Get("ETag"))
	}
	for _, c := range []struct {
		tag, accept string
		want        int
	}{
		{coded.header.Get("ETag"), "zstd", 304},
		{coded.header.Get("ETag"), "identity", 200},
		{plain.header.Get("ETag"), "zstd", 200},
		{plain.header.Get("ETag"), "identity", 304},
	} {
		req := r.request(http.MethodGet, path, "")
		req.Header.Set("If-None-Match", c.tag)
		req.Header.Set("Accept-Encoding", c.accept)
		if a := r.sendRequest(req); a.status != c.want || a.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("If-None-Match %s with %s: %d, want %d; Vary %q", c.tag, c.accept, a.status, c.want, a.header.Get("Vary"))
		}
	}
	head := r.getCoded(http.MethodHead, path, "zstd")
	for _, name := range []string{"Content-Encoding", "Content-Length", "ETag", "Content-Type", "Vary"} {
		if head.header.Get(name) != coded.header.Get(name) {
			t.Errorf("HEAD has %s %q, GET %q", name, head.header.Get(name), coded.header.Get(name))
		}
	}
	if len(head.body) != 0 {
		t.Errorf("HEAD has a body of %d bytes", len(head.body))
	}
}

func TestOutputsAndStreamsStayAsTheyAre(t *testing.T) {
	r := run(t, nil)
	r.fake.putOutput("sha256:0", "text/plain", bytes.Repeat([]byte("0123456789"), 1000))
	req := r.request(http.MethodGet, "/v1/outputs/"+url.PathEscape("sha256:0"), "")
	req.Header.Set("Accept-Encoding", "gzip, zstd, identity;q=0")
	req.Header.Set("Range", "bytes=5001-5003")
	if a := r.sendRequest(req); a.status != 206 || string(a.body) != "123" || a.header.Get("Content-Encoding") != "" {
		t.Errorf("%d %q coding %q", a.status, a.body, a.header.Get("Content-Encoding"))
	}
	r.fake.open("sess_1", "a")
	r.fake.deltas("sess_1", 50)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, frames := r.stream(ctx, "/v1/sessions/sess_1/events", "client-token", "Accept-Encoding", "gzip, zstd")
	defer res.Body.Close()
	if f, err := frames.Next(); err != nil || f.ID != "1" || res.Header.Get("Content-Encoding") != "" {
		t.Errorf("%v %v coding %q", f, err, res.Header.Get("Content-Encoding"))
	}
}

// An answer with a secret isn't compressed beside what the caller sent: its length
// would tell how much of the secret the caller guessed.
func TestAnswersWithSecretsAreNotCompressed(t *testing.T) {
	shows := 0
	for _, d := range command.Catalog() {
		if hasSecret(reflect.TypeOf(d.Result).Elem()) != d.ShowsSecret {
			t.Errorf("%s: ShowsSecret is %t", d.Name, d.ShowsSecret)
		}
		if d.ShowsSecret {
			shows++
		}
	}
	if shows == 0 {
		t.Fatal("no command shows a secret")
	}
	r := runOn(t, secretive{newFake()}, nil)
	call := map[string]string{
		"/v1/commands/connect_channel": `{"transport":"sse","peerRole":"client"}`,
		"/v1/rpc":                      `[{"jsonrpc":"2.0","id":1,"method":"connect_channel","params":{"transport":"sse","peerRole":"client"}}]`,
	}
	for path, body := range call {
		req := r.request(http.MethodPost, path, body)
		req.Header.Set("Accept-Encoding", "gzip, identity;q=0")
		a := r.sendRequest(req)
		if a.status != 200 || a.header.Get("Content-Encoding") != "" || !strings.Contains(string(a.body), "sesame") {
			t.Errorf("%s: %d, coding %q, %.100s", path, a.status, a.header.Get("Content-Encoding"), a.body)
		}
	}
}

// hasSecret reports whether a result has a field that is passed on unredacted.
func hasSecret(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if f.Tag.Get("secret") == "pass" {
			return true
		}
	}
	return false
}

// secretive is a backend whose answers are long and secret.
type secretive struct{ *fake }

// Do implements [server.Backend].
func (secretive) Do(context.Context, command.Caller, command.Params) (any, error) {
	return &command.ConnectChannelResult{ChannelID: "chan_1", ResumeToken: strings.Repeat("sesame", 1000)}, nil
}
