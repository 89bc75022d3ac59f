package httpstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"agentd/event"
	"agentd/internal/leaktest"
	"agentd/model"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// lines is a protocol of tests: each event is text, "end" ends it.
type lines struct{ ended bool }

func (d *lines) Event(e Event, a *Answer) error {
	if string(e.Data) == "end" {
		a.Finish(model.Done{StopReason: StopEndTurn})
		return nil
	}
	if string(e.Data) == "almost" {
		d.ended = true
		return nil
	}
	a.Text(Text(e.Data))
	return nil
}

func (d *lines) Whole([]byte, *Answer) error { return nil }

func (d *lines) End(a *Answer) error {
	if !d.ended {
		return Unfinished()
	}
	a.Finish(model.Done{StopReason: StopEndTurn})
	return nil
}

// body gives a transport that answers with what a function reads.
type body func(ctx context.Context) io.ReadCloser

func (b body) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: b(r.Context()), Request: r}, nil
}

// stalling reads its text and then nothing until its context ends.
type stalling struct {
	ctx  context.Context
	text io.Reader
}

func (s *stalling) Read(p []byte) (int, error) {
	if n, _ := s.text.Read(p); n > 0 {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

func (*stalling) Close() error { return nil }

func stall(text string) body {
	return func(ctx context.Context) io.ReadCloser { return &stalling{ctx, strings.NewReader(text)} }
}

func conn(b body) *Conn {
	return New(Options{BaseURL: "http://test.example/v1", IdleTimeout: time.Minute, Client: &http.Client{Transport: b}}, "test", "")
}

func play(ctx context.Context, c *Conn, each func(model.Chunk)) (text string, done *model.Done, err error) {
	var all strings.Builder
	for chunk, e := range c.Stream(ctx, &model.Request{}, func() Exchange { return Exchange{Path: "x", Body: c.NewObject().Body(), Decoder: &lines{}} }) {
		all.WriteString(chunk.Text)
		if chunk.Done != nil {
			done = chunk.Done
		}
		if each != nil {
			each(chunk)
		}
		err = e
	}
	return all.String(), done, err
}

func category(err error) string {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e.Category
	}
	return fmt.Sprint(err)
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		text, _, err := play(t.Context(), conn(stall("data: a\n\n")), nil)
		if category(err) != model.Timeout || text != "a" || time.Since(began) != time.Minute {
			t.Fatalf("%q, %v after %s", text, err, time.Since(began))
		}
	})
}

// bytewise reads one byte at a time and fails once its context has ended, as the
// body of a real connection does.
type bytewise struct {
	ctx    context.Context
	text   *strings.Reader
	sawEnd bool
}

func (b *bytewise) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.text.Read(p[:1])
	b.sawEnd = b.sawEnd || err != nil
	return n, err
}

func (*bytewise) Close() error { return nil }

// TestSlowConsumer: only the server's silence counts.
func TestSlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conn(func(ctx context.Context) io.ReadCloser {
			return &bytewise{ctx: ctx, text: strings.NewReader("data: a\n\ndata: b\n\ndata: end\n\n")}
		})
		text, done, err := play(t.Context(), c, func(model.Chunk) { time.Sleep(time.Hour) })
		if err != nil || text != "ab" || done == nil {
			t.Fatalf("%q, %v", text, err)
		}
	})
}

// TestTheBodyIsReadToItsEnd: otherwise its connection can't be used again.
func TestTheBodyIsReadToItsEnd(t *testing.T) {
	var b *bytewise
	c := conn(func(ctx context.Context) io.ReadCloser {
		b = &bytewise{ctx: ctx, text: strings.NewReader("data: end\n\n: more\n\n")}
		return b
	})
	if _, done, err := play(t.Context(), c, nil); err != nil || done == nil || !b.sawEnd {
		t.Fatalf("%v, read to the end: %v", err, b.sawEnd)
	}
}

func TestSilenceAfterTheLastPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, done, err := play(t.Context(), conn(stall("data: a\n\ndata: almost\n\n")), nil)
		if err != nil || done == nil || text != "a" {
			t.Fatalf("%q, %v", text, err)
		}
	})
}

// TestOpenConnection: a server that leaves the connection open after the end
// holds nobody up for long.
func TestOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, done, err := play(t.Context(), conn(stall("data: end\n\n")), nil)
		if err != nil || done == nil || time.Since(began) > drainFor {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, _, err := play(ctx, conn(stall("data: a\n\n")), nil); category(err) != model.Timeout || time.Since(began) != time.Second {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
	})
}

// endless repeats a text for ever.
type endless struct {
	text string
	at   int
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	e.read += int64(n)
	return n, nil
}

func TestBounds(t *testing.T) {
	for name, text := range map[string]string{"events": "data: aaaaaaaaaa\n\n", "comments": ": a\n", "one line": "a", "one data line": "data: ", "spaces": " ", "JSON": "{"} {
		t.Run(name, func(t *testing.T) {
			in := &endless{text: text}
			c := conn(func(context.Context) io.ReadCloser { return io.NopCloser(in) })
			c.maxEvent, c.maxAnswer, c.maxBody = 1<<10, 1<<17, 1<<20
			_, _, err := play(t.Context(), c, nil)
			var e *model.Error
			if !errors.As(err, &e) || e.Category != model.Malformed || e.Retryable || in.read > 2<<20 || len(e.Raw) > MaxRaw {
				t.Fatalf("%v after %d bytes, %d kept", err, in.read, len(e.Raw))
			}
		})
	}
}

// TestASecretAtTheBoundOfRaw: half a key is still too much.
func TestASecretAtTheBoundOfRaw(t *testing.T) {
	key := strings.Join([]string{"key", "for", "tests", "0123456789"}, "-")
	for shift := range len(key) + 2 {
		text := ":" + strings.Repeat("x", MaxRaw-shift) + key + "\n\ndata: end\n\n"
		c := New(Options{BaseURL: "http://test.example", APIKey: key, Client: &http.Client{Transport: body(func(context.Context) io.ReadCloser {
			return io.NopCloser(strings.NewReader(text))
		})}}, "test", "")
		_, done, err := play(t.Context(), c, nil)
		if err != nil || len(done.Raw) > MaxRaw || strings.Contains(string(done.Raw), key[:5]) {
			t.Fatalf("shift %d: %v, %q", shift, err, done.Raw[len(done.Raw)-40:])
		}
	}
}

func TestSecretsInOtherForms(t *testing.T) {
	key := strings.Join([]string{"pass", `"word"`, "<1>"}, "/")
	s := secretsOf(Options{APIKey: key, Headers: map[string]string{"Cookie": "abc", "X-Title": "a title that shows"}})
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.cutString("a " + key + " b " + string(quoted) + " abc a title that shows"); got != "a [redacted] b \"[redacted]\" abc a title that shows" {
		t.Fatalf("%q", got)
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		body, category string
		status         int
		retryable      bool
	}{
		{`{"error":"model 'x' not found"}`, model.InvalidRequest, 404, false},
		{`{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, model.ContextOverflow, 400, false},
		{`{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","code":400}`, model.ContextOverflow, 400, false},
		{`{"error":{"message":"Request too large: prompt is too long for your tokens per min","type":"tokens","code":"rate_limit_exceeded"}}`, model.RateLimited, 429, true},
		{`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, model.RateLimited, 429, false},
		{`{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}`, model.RateLimited, 400, false},
		{`{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, model.Auth, 401, false},
		{`{"error":{"message":"filtered","code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, model.ContentFilter, 400, false},
		{`{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, model.ContextOverflow, 413, false},
		{`{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, model.ServerError, 0, true},
		{`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`, model.RateLimited, 0, true},
		{`{"type":"error","error":{"type":"timeout_error","message":"slow"}}`, model.Timeout, 0, true},
		{`{"type":"error","error":{"type":"not_found_error","message":"no"}}`, model.InvalidRequest, 0, false},
		{`{"error":{"status":"UNAVAILABLE","message":"later"}}`, model.Overloaded, 0, true},
		{`{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"upstream said no","provider_name":"p"}}}`, model.ServerError, 0, true},
		{`{"detail":"Not Found"}`, model.InvalidRequest, 404, false},
		{`{"detail":[{"loc":["body"],"msg":"bad"}]}`, model.InvalidRequest, 422, false},
		{`{"error":{"message":["odd"],"type":7}}`, model.ServerError, 500, true},
		{`{"error":true}`, model.ServerError, 500, true},
	} {
		f := ParseFailure([]byte(c.body))
		if f == nil {
			t.Errorf("%s: no failure", c.body)
			continue
		}
		if c.status != 0 {
			f.HTTPStatus = c.status
		}
		if e := f.Error(); e.Category != c.category || e.Retryable != c.retryable || e.Message == "" {
			t.Errorf("%s: %+v", c.body, e)
		}
	}
	for _, s := range []string{`{}`, `[]`, `[1]`, `{"error":null,"id":"x"}`, `nothing`, ``, `{"choices":[]}`} {
		if f := ParseFailure([]byte(s)); f != nil {
			t.Errorf("%s is taken for a failure: %+v", s, f)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"shell", "_a-b_9", strings.Repeat("a", 64)} {
		if ToolName(name) != name {
			t.Errorf("%s became %s", name, ToolName(name))
		}
	}
	seen := map[string]string{}
	for _, name := range []string{"", "files/read", "files.read", "files read", "1st", "-a", strings.Repeat("a", 65), strings.Repeat("a", 66), "größe", "世界", "\xff"} {
		got := ToolName(name)
		if !validName(got) || seen[got] != "" {
			t.Errorf("%q became %q, like %q", name, got, seen[got])
		}
		seen[got] = name + "!"
	}
	for _, id := range []string{"call_1", "toolu_01-X"} {
		if CallID(id) != id {
			t.Errorf("%s became %s", id, CallID(id))
		}
	}
	for _, id := range []string{"", "functions.shell:0", strings.Repeat("x", 41)} {
		if got := CallID(id); got == id || got != CallID(got) || len(got) > 40 {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func TestStrictSchemas(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`:                     true,
		`{"type":"object","properties":{},"additionalProperties":false}`:                                                           true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`:                        false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                  false,
		`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}`:                     false,
		`{"type":"object","properties":{"a":{"type":"array","items":{"oneOf":[]}}},"required":["a"],"additionalProperties":false}`: false,
		`{"type":"array","items":{}}`: false,
		`true`:                        false,
		`{`:                           false,
	} {
		if got := IsStrict(event.Raw(schema)); got != want {
			t.Errorf("%s: %v", schema, got)
		}
	}
}

func TestObject(t *testing.T) {
	c := New(Options{Extra: map[string]json.RawMessage{"a": json.RawMessage("null"), "b": json.RawMessage("7"), "c": json.RawMessage(`{"y":2}`), "d": json.RawMessage("[]"), "z": json.RawMessage("true"), "n": json.RawMessage(" null ")}}, "test", "http://test.example")
	for range 2 {
		o := c.NewObject()
		o.String("a", "x")
		o.Raw("b", []byte("1"))
		o.Raw("c", []byte(`{"x":1,"y":1}`))
		o.Pieces("d", [][]byte{[]byte("[1]")})
		o.Pieces("e", [][]byte{[]byte("[1,"), []byte(`{}]`)})
		got := o.Body()
		if want := `{"b":7,"c":{"x":1,"y":2},"d":[],"e":[1,{}],"z":true}`; string(got.Bytes()) != want || got.Len() != int64(len(want)) {
			t.Fatalf("%s", got.Bytes())
		}
		for range 2 {
			if b, err := io.ReadAll(iotest.OneByteReader(got.reader())); err != nil || !bytes.Equal(b, got.Bytes()) {
				t.Fatalf("%s, %v", b, err)
			}
		}
	}
	if got := (&Object{}).Body(); string(got.Bytes()) != "{}" {
		t.Fatalf("%s", got.Bytes())
	}
}

func TestOptionsInALog(t *testing.T) {
	o := Options{APIKey: strings.Repeat("k", 20), BaseURL: "https://user:pw123456@host.example/v1?key=abcdefgh", Headers: map[string]string{"Authorization": strings.Repeat("h", 20)}}
	c := New(o, "n", "")
	j, err := json.Marshal(o.APIKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprintf("%v %+v %#v %s", o, o, &o, o), fmt.Sprintf("%v %+v %#v", c, c, c)} {
		for _, secret := range []string{"kkkk", "hhhh", "pw123456", "abcdefgh", string(j)} {
			if strings.Contains(s, secret) {
				t.Errorf("%s shows in %s", secret, s)
			}
		}
	}
}
