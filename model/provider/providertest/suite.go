package providertest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// Subject is a provider that the suite tests.
type Subject struct {
	// New makes the provider.
	New func(httpstream.Options) model.Provider
	// Hello is a stream whose text is "Grüße, 世界! 👋" and which ends as it should.
	Hello string
	// Whole is the same answer in one JSON object.
	Whole string
	// Half is the beginning of a stream, with the text "Half".
	Half string
	// Failure is an error in the vendor's form, with a place for the message.
	Failure string
	// Overflow is the vendor's error for a conversation that doesn't fit.
	Overflow string
	// StreamFailure is an event of a stream that says the server is overloaded.
	StreamFailure string
	// Content are answers with more than a text.
	Content Content
}

// HelloText is the text of Subject.Hello.
const HelloText = "Grüße, 世界! 👋"

func sampleRequest() *model.Request {
	return &model.Request{Model: "m", RequestID: "mr_1", Messages: []*model.Message{{Role: model.RoleUser, Text: "Hello"}}}
}

// Run holds a provider to what is promised for every server.
func Run(t *testing.T, s Subject) {
	t.Run("Streams", s.streams)
	t.Run("Content", s.content)
	t.Run("Statuses", s.statuses)
	t.Run("Waits", s.waits)
	t.Run("Standing", s.standing)
	t.Run("Ends", s.ends)
	t.Run("Secrets", s.secrets)
	t.Run("Unreachable", s.unreachable)
	t.Run("Stops", s.stops)
	t.Run("Reuses", s.reuses)
}

// streams plays the same stream in every awkward way.
func (s Subject) streams(t *testing.T) {
	crlf := strings.ReplaceAll(s.Hello, "\n", "\r\n")
	for name, stream := range map[string]string{
		"as documented":          s.Hello,
		"CRLF":                   crlf,
		"CR":                     strings.ReplaceAll(s.Hello, "\n", "\r"),
		"byte order mark":        "\xEF\xBB\xBF" + s.Hello,
		"comments":               ": one\n\n" + strings.ReplaceAll(s.Hello, "data: ", ": two\ndata: "),
		"no space":               strings.ReplaceAll(s.Hello, "data: ", "data:"),
		"ids and unknown fields": strings.ReplaceAll(s.Hello, "data: ", "id: 7\nretry: 1\nother\ndata: "),
		"several data lines":     strings.ReplaceAll(s.Hello, `,"`, ",\ndata: \""),
		"no last empty line":     strings.TrimRight(s.Hello, "\n"),
		"one JSON object":        s.Whole,
	} {
		for _, n := range []int{0, 1, 7} {
			t.Run(fmt.Sprintf("%s by %d", name, n), func(t *testing.T) {
				srv := Play(t, stream, n)
				got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
				if got.Err != nil || got.Text != HelloText || got.Done.StopReason != "end_turn" {
					t.Fatalf("got %q, %+v, %v", got.Text, got.Done, got.Err)
				}
				if len(got.Done.Raw) == 0 || !strings.HasPrefix(stream, string(got.Done.Raw)) {
					t.Fatalf("Raw is not what was sent: %q", got.Done.Raw)
				}
			})
		}
	}
}

func (s Subject) statuses(t *testing.T) {
	page := "<!DOCTYPE html>\n<html><head><title>502 Bad &amp; Gateway</title></head><body>" + strings.Repeat("<p>sorry</p>", 1000) + "</body></html>"
	for _, c := range []struct {
		name      string
		status    int
		body      string
		category  string
		retryable bool
		message   string
	}{
		{"invalid", 400, fmt.Sprintf(s.Failure, "no such parameter"), model.InvalidRequest, false, "no such parameter"},
		{"overflow", 400, s.Overflow, model.ContextOverflow, false, ""},
		{"auth", 401, fmt.Sprintf(s.Failure, "who are you"), model.Auth, false, "who are you"},
		{"forbidden", 403, "", model.Auth, false, "no reason"},
		{"no credit", 402, fmt.Sprintf(s.Failure, "pay"), model.RateLimited, false, "pay"},
		{"unknown model", 404, fmt.Sprintf(s.Failure, "no such model"), model.InvalidRequest, false, "no such model"},
		{"request timeout", 408, "", model.Timeout, true, ""},
		{"too large", 413, "", model.ContextOverflow, false, ""},
		{"rate", 429, fmt.Sprintf(s.Failure, "slow down"), model.RateLimited, true, "slow down"},
		{"server", 500, fmt.Sprintf(s.Failure, "oops"), model.ServerError, true, "oops"},
		{"not implemented", 501, "", model.ServerError, false, ""},
		{"bare text", 500, "upstream\nbroke", model.ServerError, true, "upstream\nbroke"},
		{"page", 502, page, model.ServerError, true, "502 Bad & Gateway"},
		{"unavailable", 503, "", model.Overloaded, true, ""},
		{"gateway timeout", 504, page, model.Timeout, true, ""},
		{"overloaded", 529, "", model.Overloaded, true, ""},
		{"page in place of an answer", 200, page, model.Malformed, false, "base URL"},
		{"error in place of an answer", 200, fmt.Sprintf(s.Failure, "not today"), "", false, "not today"},
		{"other JSON", 200, `{"hello":"world"}`, model.Malformed, true, "not an answer"},
		{"nothing", 200, "", model.Malformed, true, "ended before"},
		{"nonsense", 200, "hello\nworld\n\n", model.Malformed, true, "ended before"},
		{"broken JSON", 200, "data: {\"a\":\n\n", model.Malformed, true, "can't be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
			e := got.Err
			if e == nil {
				t.Fatalf("no error: %+v", got)
			}
			if c.category != "" && (e.Category != c.category || e.Retryable != c.retryable) || !strings.Contains(e.Message, c.message) {
				t.Fatalf("got %s, retryable %v, %q", e.Category, e.Retryable, e.Message)
			}
			if c.status != 200 && e.HTTPStatus != c.status {
				t.Fatalf("status %d", e.HTTPStatus)
			}
			if len(e.Message) > 1000 || !strings.HasPrefix(c.body, string(e.Raw)) {
				t.Fatalf("message of %d bytes, raw %q", len(e.Message), e.Raw)
			}
		})
	}
	t.Run("redirect", s.redirect)
}

// redirect: a key must not follow one to another host.
func (s Subject) redirect(t *testing.T) {
	target := Play(t, s.Hello, 0)
	srv := Serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+"/elsewhere", http.StatusTemporaryRedirect)
	})
	got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL, APIKey: Key()}), sampleRequest())
	if got.Err == nil || got.Err.Category != model.InvalidRequest || !strings.Contains(got.Err.Message, "redirects") || target.Count() != 0 {
		t.Fatalf("got %v; the other host was asked %d times", got.Err, target.Count())
	}
}

func (s Subject) waits(t *testing.T) {
	date := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		header http.Header
		want   time.Duration
	}{
		{"none", http.Header{}, 0},
		{"seconds", http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		{"part of a second", http.Header{"Retry-After": {"1.5"}}, 1500 * time.Millisecond},
		{"milliseconds", http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"1"}}, 250 * time.Millisecond},
		{"date", http.Header{"Retry-After": {date.Add(90 * time.Second).Format(http.TimeFormat)}, "Date": {date.Format(http.TimeFormat)}}, 90 * time.Second},
		{"date in the past", http.Header{"Retry-After": {date.Format(http.TimeFormat)}, "Date": {date.Add(time.Hour).Format(http.TimeFormat)}}, 0},
		{"negative", http.Header{"Retry-After": {"-5"}}, 0},
		{"nonsense", http.Header{"Retry-After": {"soon"}}, 0},
		{"absurd", http.Header{"Retry-After": {"1e300"}}, 7 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), c.header)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
			if got.Err == nil || got.Err.RetryAfter != c.want || got.Err.Category != model.RateLimited {
				t.Fatalf("got %+v", got.Err)
			}
		})
	}
	t.Run("the server's own word", func(t *testing.T) {
		srv := Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Should-Retry", "false")
			w.WriteHeader(http.StatusInternalServerError)
		})
		got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
		if got.Err == nil || got.Err.Retryable {
			t.Fatalf("got %+v", got.Err)
		}
	})
}

func (s Subject) standing(t *testing.T) {
	for _, c := range []struct {
		name   string
		header map[string]string
		want   *model.Standing
	}{
		{"none", nil, nil},
		{"one form", map[string]string{"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "99", "x-ratelimit-limit-tokens": "5000", "x-ratelimit-remaining-tokens": "4000"}, &model.Standing{RequestsLeft: 99, RequestsLimit: 100, TokensLeft: 4000, TokensLimit: 5000}},
		{"the other", map[string]string{"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "0"}, &model.Standing{RequestsLeft: 0, RequestsLimit: 50, TokensLeft: -1, TokensLimit: -1}},
		{"nonsense", map[string]string{"x-ratelimit-limit-requests": "many"}, nil},
	} {
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			t.Run(fmt.Sprintf("%s %d", c.name, status), func(t *testing.T) {
				srv := Serve(t, func(w http.ResponseWriter, _ *http.Request) {
					for k, v := range c.header {
						w.Header().Set(k, v)
					}
					w.WriteHeader(status)
					if status == http.StatusOK {
						Write(w, s.Hello, 0)
					}
				})
				got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
				var standing *model.Standing
				if got.Done != nil {
					standing = got.Done.Standing
				} else {
					standing = got.Err.Standing
				}
				if (standing == nil) != (c.want == nil) || standing != nil && *standing != *c.want {
					t.Fatalf("got %+v", standing)
				}
			})
		}
	}
}

// ends are streams that don't end as they should.
func (s Subject) ends(t *testing.T) {
	t.Run("cut off cleanly", func(t *testing.T) {
		srv := Play(t, s.Half, 0)
		got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
		s.wantHalf(t, got, model.Malformed)
	})
	t.Run("connection broken", func(t *testing.T) {
		srv := Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			Write(w, s.Half, 0)
			panic(http.ErrAbortHandler)
		})
		got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
		s.wantHalf(t, got, model.Network)
	})
	t.Run("stalls in the middle", func(t *testing.T) {
		srv := Serve(t, func(w http.ResponseWriter, r *http.Request) {
			Write(w, s.Half, 0)
			<-r.Context().Done()
		})
		// On a busy machine a short limit passes before anything has come.
		for limit := 50 * time.Millisecond; ; limit *= 4 {
			got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL, IdleTimeout: limit}), sampleRequest())
			if got.Text != "" || limit > time.Minute {
				s.wantHalf(t, got, model.Timeout)
				return
			}
		}
	})
	t.Run("stalls before the answer", func(t *testing.T) {
		srv := Serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL, IdleTimeout: 50 * time.Millisecond}), sampleRequest())
		if got.Err == nil || got.Err.Category != model.Timeout || !got.Err.Retryable {
			t.Fatalf("got %v", got.Err)
		}
	})
	t.Run("error in the middle", func(t *testing.T) {
		srv := Play(t, s.Half+s.StreamFailure, 0)
		got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
		s.wantHalf(t, got, model.Overloaded)
	})
	t.Run("broken JSON in the middle", func(t *testing.T) {
		srv := Play(t, s.Half+"data: {\"type\":\n\n", 0)
		got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
		s.wantHalf(t, got, model.Malformed)
	})
	t.Run("more after the end", func(t *testing.T) {
		srv := Play(t, s.Hello+s.Hello, 0)
		if got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest()); got.Err != nil {
			t.Fatal(got.Err)
		}
	})
}

func (s Subject) wantHalf(t *testing.T, got Result, category string) {
	t.Helper()
	if got.Err == nil || got.Err.Category != category || !got.Err.Retryable || got.Text != "Half" || len(got.Err.Raw) == 0 {
		t.Fatalf("got %q, %+v", got.Text, got.Err)
	}
}

// secrets: the key goes to the server and nowhere else.
func (s Subject) secrets(t *testing.T) {
	key, token := Key(), strings.Join([]string{"another", "secret", "0123"}, "_")
	o := httpstream.Options{APIKey: key, Headers: map[string]string{"X-Proxy-Token": "Bearer " + token}}
	clean := func(t *testing.T, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if strings.Contains(text, key) || strings.Contains(text, token) {
				t.Fatalf("a secret shows in %q", text)
			}
		}
	}
	for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			srv := Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, s.Failure, "wrong key "+key+" or token "+token)
			})
			o := o
			o.BaseURL = srv.URL
			p := s.New(o)
			got := Collect(t.Context(), t, p, sampleRequest())
			_, header, body := srv.Last()
			if !strings.Contains(fmt.Sprint(header), key) || strings.Contains(string(body), key) {
				t.Fatal("the key didn't reach the server in a header")
			}
			if got.Err == nil || !strings.Contains(got.Err.Message, "wrong key [redacted] or token [redacted]") {
				t.Fatalf("got %v", got.Err)
			}
			clean(t, got.Err.Error(), string(got.Err.Raw), fmt.Sprintf("%+v %#v %v", o, o, p), fmt.Sprintf("%+v", p))
		})
	}
	t.Run("stream", func(t *testing.T) {
		srv := Play(t, ": "+key+"\n\n"+s.Hello, 0)
		o := o
		o.BaseURL = srv.URL
		got := Collect(t.Context(), t, s.New(o), sampleRequest())
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		clean(t, string(got.Done.Raw))
	})
	t.Run("no key", func(t *testing.T) {
		srv := Play(t, s.Hello, 0)
		if got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest()); got.Err != nil {
			t.Fatal(got.Err)
		}
		_, header, _ := srv.Last()
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
			if header.Get(name) != "" {
				t.Fatalf("%s is sent without a key", name)
			}
		}
	})
}

func (s Subject) unreachable(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct {
		name, url, category string
		retryable           bool
	}{
		{"refused", gone.URL, model.Network, true},
		{"no address", "localhost:1234", model.InvalidRequest, false},
		{"another scheme", "file:///etc", model.InvalidRequest, false},
		{"not a URL", "http://[", model.InvalidRequest, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Collect(t.Context(), t, s.New(httpstream.Options{BaseURL: c.url, APIKey: Key()}), sampleRequest())
			if got.Err == nil || got.Err.Category != c.category || got.Err.Retryable != c.retryable || strings.Contains(got.Err.Message, Key()) {
				t.Fatalf("got %+v", got.Err)
			}
		})
	}
}
