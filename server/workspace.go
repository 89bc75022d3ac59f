package server

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"agentd/fault"
)

// WorkspaceHeader names, percent-encoded, the folder of sessions that a request opens
// without naming one. A runtime that serves many folders gets it from its clients.
const WorkspaceHeader = "Agentd-Workspace"

// workspaceOf returns the folder that a request's header names; empty without one.
func workspaceOf(h http.Header) (string, error) {
	given := h.Get(WorkspaceHeader)
	if given == "" {
		return "", nil
	}
	path, err := url.PathUnescape(given)
	if err != nil || !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", fault.New(fault.InvalidParams, "the header %s must be an absolute path, percent-encoded", WorkspaceHeader)
	}
	return filepath.Clean(path), nil
}
