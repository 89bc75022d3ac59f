//go:build !noconsole

package console

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var dist embed.FS

// prefix is where the server puts the handler.
const prefix = "/ui/"

// mediaTypes of the files that a build makes.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".webmanifest": "application/manifest+json", ".woff2": "font/woff2",
}

// policy is the Content-Security-Policy of the page. Trusted types: not even a defect
// in the application can put HTML of others into it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"worker-src 'self'; frame-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; " +
	"require-trusted-types-for 'script'; trusted-types svelte-trusted-html agentd; "

// Handler returns the handler of everything below /ui/.
func Handler() http.Handler {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return &handler{files: files}
}

type handler struct {
	files  fs.FS
	loaded sync.Map // of *file, by name
}

// file is one that was asked for.
type file struct {
	plain, zipped []byte
	etag          string
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, prefix)
	asset := strings.HasPrefix(name, "assets/")
	f := h.load(name)
	if f == nil || name == "index.html" {
		if asset {
			http.Error(w, "there is no such file; reload the page: agentd may have been updated", http.StatusNotFound)
			return
		}
		name = "index.html"
		f = h.load(name)
	}
	header := w.Header()
	header.Set("Content-Type", mediaTypes[path.Ext(name)])
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache")
	switch {
	case asset:
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		header.Set("Content-Security-Policy", policy+"frame-ancestors 'none'") // for workers
	case name == "terminal.html":
		h.serveTerminal(w, f)
		return
	default:
		header.Set("Content-Security-Policy", policy+"frame-ancestors 'none'")
	}
	f.send(w, r)
}

// serveTerminal sends the page of one terminal, which the application shows in a frame. The
// terminal makes style elements: a nonce lets those of this answer in.
func (h *handler) serveTerminal(w http.ResponseWriter, f *file) {
	nonce := rand.Text()
	header := w.Header()
	header.Set("Content-Security-Policy", strings.Replace(policy, "style-src 'self'", "style-src 'self' 'nonce-"+nonce+"'", 1)+"frame-ancestors 'self'")
	header.Set("Cache-Control", "no-store")
	body := bytes.Replace(f.plain, []byte("NONCE"), []byte(nonce), 1)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) //nolint:gosec // an embedded file; a client that is gone needs no answer
}

// send sends the file, compressed if the browser accepts that.
func (f *file) send(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("ETag", f.etag)
	header.Add("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if len(f.zipped) < len(f.plain) && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) //nolint:gosec // an embedded file; a client that is gone needs no answer
	}
}

// load returns a file, compressed, or nil.
func (h *handler) load(name string) *file {
	if known, ok := h.loaded.Load(name); ok {
		return known.(*file)
	}
	if !fs.ValidPath(name) || name == "." {
		return nil
	}
	plain, err := fs.ReadFile(h.files, name)
	if err != nil {
		return nil
	}
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // a level that exists
	_, _ = z.Write(plain)                                      // memory takes everything
	_ = z.Close()
	sum := sha256.Sum256(plain)
	f := &file{plain, zipped.Bytes(), `"` + hex.EncodeToString(sum[:12]) + `"`}
	h.loaded.Store(name, f)
	return f
}
