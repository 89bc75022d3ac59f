package mcpserver

import (
	"context"
	"mime"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"agentd/internal/wire"
)

const methodHeader = "Mcp-Method"

// plainListen reports whether a request is in the form that the transport demands.
// One that isn't is left to the SDK, which says what is wrong with it.
func plainListen(r *http.Request, m *message) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	accepted := strings.Join(r.Header.Values("Accept"), ",")
	return err == nil && media == "application/json" &&
		strings.Contains(accepted, "application/json") && strings.Contains(accepted, "text/event-stream") &&
		r.Header.Get(methodHeader) == methodListen && r.Header.Get(versionHeader) == m.version()
}

// listenTo answers a request that subscribes to tasks with a stream.
func (d *door) listenTo(m *message) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := auth.TokenInfoFromContext(r.Context()).Extra[identityExtra].(*Identity)
		l := &listening{s: d.s, id: id, request: m.ID}
		if !declaresTasks(m.Params.Meta) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(l.answerOf(nil, errNoTasks())) // a client that went away needs no answer
			return
		}
		out := wire.NewSSEWriter(w)
		l.send = func(_ context.Context, n notice) error { return out.Send("message", noticeOf(n)) }
		res, err := l.run(r.Context(), m.Params.Notifications.TaskIDs)
		if r.Context().Err() == nil {
			_ = out.Send("message", l.answerOf(res, err)) // as above
		}
	})
}
