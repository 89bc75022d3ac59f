package server

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"strings"

	"agentd/fault"
	"agentd/internal/gen"
	"agentd/internal/wire"
)

// documents are the files that the server hands out beside its schemas, by path.
type documents map[string]Document

// newDocuments adds the build's own documents to those of the options, which win.
func newDocuments(extra map[string]Document) documents {
	d := documents{
		"/v1/catalog":      {MediaType: "application/json", Data: gen.Catalog()},
		"/v1/openapi.json": {MediaType: "application/json", Data: gen.OpenAPI()},
	}
	maps.Copy(d, extra)
	return d
}

// serveDocument answers with the document at the request's own path.
func (s *Server) serveDocument(w http.ResponseWriter, r *http.Request, _ *request) error {
	doc, ok := s.docs[r.URL.Path]
	if !ok {
		return fault.New(fault.NotFound, "this build has no such document")
	}
	return writeDocument(w, r, doc)
}

// serveSchema answers GET /v1/schemas/{name}.
func (s *Server) serveSchema(w http.ResponseWriter, r *http.Request, q *request) error {
	name := q.variable
	data, ok := []byte(nil), false
	if !strings.ContainsAny(name, "/\\") {
		data, ok = gen.Schema(name)
	}
	if !ok {
		return fault.New(fault.NotFound, "there is no schema %s; use event, event.FAMILY, command.NAME.params, command.NAME.result or problem", wire.Clip(name))
	}
	return writeDocument(w, r, Document{MediaType: "application/schema+json", Data: data})
}

// writeDocument sends a document, or 304 to a client that has it.
func writeDocument(w http.ResponseWriter, r *http.Request, doc Document) error {
	sum := sha256.Sum256(doc.Data)
	name := base64.RawURLEncoding.EncodeToString(sum[:12])
	if c := codingFor(w, len(doc.Data)); c != "" {
		name += "-" + string(c) // other bytes have another tag
	}
	tag := `"` + name + `"`
	h := w.Header()
	h.Set("Content-Type", doc.MediaType)
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache")
	if match := r.Header.Get("If-None-Match"); match != "" && strings.Contains(match, tag) {
		h.Add("Vary", "Accept-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return writeBody(w, http.StatusOK, doc.Data)
}
