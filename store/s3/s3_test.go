package s3_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"agentd/internal/s3test"
	"agentd/store"
	"agentd/store/s3"
)

const secret = "a-secret-that-no-error-has"

func open(t *testing.T, opt s3.Options) *s3.Bucket {
	t.Helper()
	if opt.Keys == nil {
		opt.Keys = func() (s3.Keys, error) { return s3.Keys{Access: s3test.AccessKey, Secret: s3test.SecretKey}, nil }
	}
	b, err := s3.Open(&opt)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, opt := range []s3.Options{
		{},
		{Endpoint: "https://h"},
		{Bucket: "b"},
		{Endpoint: "h:9000", Bucket: "b"},
		{Endpoint: "ftp://h", Bucket: "b"},
		{Endpoint: "https://u:" + secret + "@h", Bucket: "b"},
		{Endpoint: "https://h/path", Bucket: "b"},
		{Endpoint: "https://h?x=" + secret, Bucket: "b"},
		{Endpoint: "https://h:port:" + secret, Bucket: "b"},
	} {
		if _, err := s3.Open(&opt); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
	b := open(t, s3.Options{Endpoint: "https://h:1", Bucket: "b", Prefix: "p/"})
	if got := b.Location(); got != "s3://h:1/b/p/" {
		t.Errorf("Location = %q", got)
	}
}

// TestObjects is what an object goes through, on a real server.
func TestObjects(t *testing.T) {
	t.Parallel()
	server := s3test.Shared(t)
	b := open(t, s3.Options{Endpoint: server.URL, Bucket: server.Bucket(t), Prefix: "deep/down/"})
	large := bytes.Repeat([]byte("0123456789abcdefg"), 2<<20) // more than a part
	for name, content := range map[string][]byte{"one": {7}, "aa/some": []byte("some content"), "large": large} {
		// A reader that can't go back, in pieces.
		if err := b.Put(t.Context(), name, iotest.HalfReader(bytes.NewBuffer(content)), int64(len(content))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		size := int64(len(content))
		for _, part := range [][2]int64{{0, size}, {size / 2, size - size/2}, {size - 1, 1}} {
			got, err := b.Get(t.Context(), name, part[0], part[1])
			if err != nil || !bytes.Equal(got, content[part[0]:part[0]+part[1]]) {
				t.Errorf("%s: %d bytes of %v, %v", name, len(got), part, err)
			}
		}
		for _, part := range [][2]int64{{0, size + 1}, {size, 1}} {
			if _, err := b.Get(t.Context(), name, part[0], part[1]); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: a part %v of %d bytes: %v, want ErrCorrupt", name, part, size, err)
			}
		}
		for range 2 { // the second finds nothing, which is no error
			if err := b.Delete(t.Context(), name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := b.Get(t.Context(), name, 0, 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
	broken := errors.New("broken")
	if err := b.Put(t.Context(), "broken", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 100); err == nil {
		t.Error("a reader that breaks made an object")
	}
	if err := b.Put(t.Context(), "short", strings.NewReader("x"), 100); err == nil {
		t.Error("less than was said made an object")
	}
	for _, name := range []string{"broken", "short"} {
		if _, err := b.Get(t.Context(), name, 0, 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
}

// TestRefusals tells what is refused for good from what passes, by what servers say.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	var code atomic.Pointer[string]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "<Error><Code>"+*code.Load()+"</Code><Message>"+secret+"</Message></Error>")
	}))
	t.Cleanup(server.Close)
	b := open(t, s3.Options{Endpoint: server.URL, Bucket: "some-bucket"})
	for _, c := range []struct {
		status int64
		code   string
		is     error
	}{
		{404, "NoSuchKey", store.ErrNotFound},
		{404, "NoSuchBucket", store.ErrRefused},
		{403, "AccessDenied", store.ErrRefused},
		{403, "SignatureDoesNotMatch", store.ErrRefused},
		{400, "AuthorizationHeaderMalformed", store.ErrRefused},
		{400, "ExpiredToken", store.ErrRefused},
		{416, "InvalidRange", store.ErrCorrupt},
		{403, "RequestTimeTooSkewed", nil},
		{500, "InternalError", nil},
		{503, "SlowDown", nil},
	} {
		status.Store(c.status)
		code.Store(&c.code)
		_, err := b.Get(t.Context(), "name", 0, 1)
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), c.code) {
			t.Errorf("%s: %v", c.code, err)
		}
		for _, is := range []error{store.ErrNotFound, store.ErrRefused, store.ErrCorrupt} {
			if errors.Is(err, is) != errors.Is(c.is, is) {
				t.Errorf("%s: %v is %v: %v", c.code, err, is, errors.Is(err, is))
			}
		}
	}
	failing := errors.New("the file with the key can't be read")
	b = open(t, s3.Options{Endpoint: server.URL, Bucket: "some-bucket", Keys: func() (s3.Keys, error) { return s3.Keys{}, failing }})
	if err := b.Delete(t.Context(), "name"); !errors.Is(err, failing) || !errors.Is(err, store.ErrRefused) {
		t.Errorf("without keys: %v", err)
	}
}
