package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agentd/fault"
	"agentd/internal/wire"
)

// handler answers a request. An error before the first byte becomes a problem.
type handler func(w http.ResponseWriter, r *http.Request, q *request) error

// commandTemplate is the address of all commands.
const commandTemplate = "/v1/commands/{command}"

// route is one address.
type route struct {
	method string
	// pattern is a path in which one segment may be a {variable}, and a last one a
	// {rest...} of any number of segments.
	pattern string
	// public addresses need no token.
	public bool
	handle handler
}

// routeTable lists all addresses of the server.
func (s *Server) routeTable() []route {
	return []route{
		{http.MethodPost, commandTemplate, false, s.serveCommand},
		{http.MethodPost, "/v1/rpc", false, s.serveRPC},
		{http.MethodGet, "/v1/ws", false, s.serveWebSocket},
		{http.MethodGet, "/v1/sessions/{id}/events", false, s.serveEvents},
		{http.MethodGet, "/v1/events", false, s.serveAllEvents},
		{http.MethodGet, "/v1/feed", false, s.serveFeed},
		{http.MethodGet, "/v1/outputs/{ref...}", false, s.serveOutput},
		{http.MethodGet, "/v1/processes/{id}/output", false, s.serveProcessOutput},
		{http.MethodGet, "/v1/catalog", false, s.serveDocument},
		{http.MethodGet, "/v1/openapi.json", false, s.serveDocument},
		{http.MethodGet, "/v1/schemas/{name}", false, s.serveSchema},
		{http.MethodGet, "/v1/status", false, s.serveStatus},
		{http.MethodGet, healthPath, true, s.serveHealth},
		{http.MethodGet, readyPath, true, s.serveReady},
		{http.MethodGet, "/metrics", false, s.serveMetrics},
	}
}

// findRoutes returns the routes whose pattern fits a path, and the path's variable.
// A path is matched as it came, without cleaning: "//" and "/../" fit nothing.
func (s *Server) findRoutes(u *url.URL) (fits []*route, variable string) {
	path := u.EscapedPath()
	for i := range s.routes {
		if v, ok := matchPattern(s.routes[i].pattern, path); ok {
			fits, variable = append(fits, &s.routes[i]), v
		}
	}
	return fits, variable
}

// matchPattern reports whether an escaped path fits a pattern, and its variable, unescaped.
func matchPattern(pattern, path string) (variable string, ok bool) {
	for pattern != "" {
		if pattern[0] != '{' {
			n := strings.IndexByte(pattern, '{')
			if n < 0 {
				if path != pattern {
					return "", false
				}
				return variable, true
			}
			if path, ok = strings.CutPrefix(path, pattern[:n]); !ok {
				return "", false
			}
			pattern = pattern[n:]
			continue
		}
		end := strings.IndexByte(pattern, '}')
		value := path
		if !strings.HasSuffix(pattern[:end], "...") {
			value, _, _ = strings.Cut(path, "/")
		}
		unescaped, err := url.PathUnescape(value)
		if err != nil || value == "" {
			return "", false
		}
		variable, path, pattern = unescaped, path[len(value):], pattern[end+1:]
	}
	if path != "" {
		return "", false
	}
	return variable, true
}

// pickRoute returns the route for a method. HEAD is answered as GET.
func pickRoute(fits []*route, method string) *route {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, rt := range fits {
		if rt.method == method {
			return rt
		}
	}
	return nil
}

// wrongMethod says which methods an address has.
func wrongMethod(w http.ResponseWriter, fits []*route, method string) error {
	var allow []string
	for _, rt := range fits {
		allow = append(allow, rt.method)
		if rt.method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	list := strings.Join(slices.Compact(allow), ", ")
	w.Header().Set("Allow", list)
	return fault.New(fault.MethodNotAllowed, "method %s is not allowed here; use %s", wire.Clip(method), list)
}

// findMount returns the mount with the longest prefix of a path, or nil.
func (s *Server) findMount(path string) *Mount {
	var best *Mount
	for i := range s.opt.Mounts {
		m := &s.opt.Mounts[i]
		under := path == m.Prefix || strings.HasPrefix(path, strings.TrimSuffix(m.Prefix, "/")+"/")
		if under && (best == nil || len(m.Prefix) > len(best.Prefix)) {
			best = m
		}
	}
	return best
}
