package a2a

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentd/internal/wire"
)

// route is one address of the HTTP+JSON binding, below [RESTPath]. A segment {x} of
// the pattern is a parameter; the pattern's verb stands behind the last one.
type route struct {
	methods []string
	pattern string
	// operation is the method of the protocol.
	operation string
	// names are the parameters of the path.
	names []string
}

var routes = []route{
	{[]string{http.MethodPost}, "/message:send", "SendMessage", nil},
	{[]string{http.MethodPost}, "/message:stream", "SendStreamingMessage", nil},
	{[]string{http.MethodGet}, "/tasks", "ListTasks", nil},
	{[]string{http.MethodGet}, "/tasks/*", "GetTask", []string{"id"}},
	{[]string{http.MethodPost}, "/tasks/*:cancel", "CancelTask", []string{"id"}},
	// The specification's text says POST, its definition GET.
	{[]string{http.MethodPost, http.MethodGet}, "/tasks/*:subscribe", "SubscribeToTask", []string{"id"}},
	{[]string{http.MethodPost}, "/tasks/*/pushNotificationConfigs", "CreateTaskPushNotificationConfig", []string{"taskId"}},
	{[]string{http.MethodGet}, "/tasks/*/pushNotificationConfigs", "ListTaskPushNotificationConfigs", []string{"taskId"}},
	{[]string{http.MethodGet}, "/tasks/*/pushNotificationConfigs/*", "GetTaskPushNotificationConfig", []string{"taskId", "id"}},
	{[]string{http.MethodDelete}, "/tasks/*/pushNotificationConfigs/*", "DeleteTaskPushNotificationConfig", []string{"taskId", "id"}},
	{[]string{http.MethodGet}, "/extendedAgentCard", "GetExtendedAgentCard", nil},
}

// match returns the parameters of a path that fits.
func (rt *route) match(path string) (map[string]any, bool) {
	want, have := strings.Split(rt.pattern, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	values := map[string]any{}
	for i, w := range want {
		rest, wild := strings.CutPrefix(w, "*")
		if !wild {
			if w != have[i] {
				return nil, false
			}
			continue
		}
		escaped, ok := strings.CutSuffix(have[i], rest)
		value, err := url.PathUnescape(escaped)
		if !ok || err != nil || value == "" || (rest == "" && strings.Contains(escaped, ":")) {
			return nil, false
		}
		values[rt.names[len(values)]] = value
	}
	return values, true
}

// findRoute returns the route of a request and the parameters of its path.
func findRoute(r *http.Request) (*route, map[string]any, error) {
	path := strings.TrimSuffix(strings.TrimPrefix(r.URL.EscapedPath(), RESTPath), "/")
	var allow []string
	for i := range routes {
		values, ok := routes[i].match(path)
		if !ok {
			continue
		}
		if slices.Contains(routes[i].methods, r.Method) {
			return &routes[i], values, nil
		}
		allow = append(allow, routes[i].methods...)
	}
	if len(allow) > 0 {
		f := errorf(wrongMethod, "method %s is not allowed here", wire.Clip(r.Method))
		f.metadata = map[string]string{"allow": strings.Join(allow, ", ")}
		return nil, nil, f
	}
	return nil, nil, errorf(methodNotFound, "there is nothing at this address")
}

// serveREST answers a request of the HTTP+JSON binding.
func (s *Server) serveREST(w http.ResponseWriter, r *http.Request) {
	result, st, err := s.dispatchREST(w, r)
	switch {
	case err != nil && s.opt.PassOn(r.Context(), err):
	case err != nil:
		s.RefuseREST(w, r, err)
	case st != nil:
		same := func(v any) any { return v }
		st.serve(w, r, s.opt.Heartbeat, same, func(err error) any { return restFailure(failureOf(err)) })
	default:
		w.Header().Add("Vary", "Accept")
		writeJSON(w, http.StatusOK, restType(r), result)
	}
}

func (s *Server) dispatchREST(w http.ResponseWriter, r *http.Request) (any, *stream, error) {
	rt, values, err := findRoute(r)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	if r.Method == http.MethodPost {
		if body, err = s.restBody(w, r); err != nil {
			return nil, nil, err
		}
	} else if err := queryParams(r.URL.Query(), values); err != nil {
		return nil, nil, err
	}
	c, err := s.openCall(r)
	if err != nil {
		return nil, nil, err
	}
	params, err := mergePathParams(body, values)
	if err != nil {
		return nil, nil, err
	}
	return s.operations[rt.operation](r.Context(), c, params)
}

// restBody reads a body; one that is empty is fine where the path says it all.
func (s *Server) restBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	if err := jsonBody(r); err != nil {
		return nil, err
	}
	return s.readBody(w, r)
}

// mergePathParams puts the parameters of the path over those of the body.
func mergePathParams(body []byte, values map[string]any) ([]byte, error) {
	all := map[string]any{}
	if len(body) > 0 {
		if wire.NestsDeeper(body, maxDepth) {
			return nil, errorf(invalidParams, "the body is nested deeper than %d levels", maxDepth)
		}
		var fields map[string]json.RawMessage
		if !json.Valid(body) {
			return nil, errorf(parseError, "the body is not JSON")
		}
		if err := json.Unmarshal(body, &fields); err != nil {
			return nil, errorf(invalidParams, "the body is not an object")
		}
		for k, v := range fields {
			all[k] = v
		}
	}
	maps.Copy(all, values)
	b, err := json.Marshal(all)
	if err != nil {
		return nil, errorf(invalidParams, "the parameters can't be read")
	}
	return b, nil
}

// Query parameters that are not texts.
var (
	numbers  = []string{"historyLength", "pageSize"}
	booleans = []string{"includeArtifacts"}
)

// queryParams adds the parameters of a query.
func queryParams(q url.Values, values map[string]any) error {
	for name, list := range q {
		if name == "A2A-Version" || len(list) == 0 {
			continue
		}
		name, text := camelName(name), list[0]
		switch {
		case text == "":
		case slices.Contains(numbers, name):
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return badParam(name, "is not a whole number: %q", wire.Clip(text))
			}
			values[name] = n
		case slices.Contains(booleans, name):
			b, err := strconv.ParseBool(text)
			if err != nil {
				return badParam(name, "is neither true nor false: %q", wire.Clip(text))
			}
			values[name] = b
		default:
			if _, taken := values[name]; !taken {
				values[name] = text
			}
		}
	}
	return nil
}

// restType is the media type of an answer: the protocol's own for those who ask for
// it, the plain one otherwise.
func restType(r *http.Request) string {
	for _, line := range r.Header.Values("Accept") {
		if strings.Contains(line, "application/a2a+json") {
			return "application/a2a+json"
		}
	}
	return "application/json"
}

// restFailure is an error in the form of google.rpc.Status.
func restFailure(f *failure) map[string]any {
	return map[string]any{"error": map[string]any{
		"code": f.http, "status": f.status, "message": f.message, "details": f.details(),
	}}
}

func writeREST(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	if allow := f.metadata["allow"]; allow != "" {
		w.Header().Set("Allow", allow)
	}
	if s := f.retrySeconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	w.Header().Add("Vary", "Accept")
	writeJSON(w, f.http, restType(r), restFailure(f))
}
