package peer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentd"
	"agentd/channel/a2a"
	"agentd/channel/a2a/peer"
	"agentd/command"
	"agentd/event"
	"agentd/evidence/replaytest"
	"agentd/loop"
	"agentd/model"
	"agentd/store/storetest"
	"agentd/tool"
)

// writer is a model that writes a file, which needs an approval, and tells what came
// of it.
type writer struct{}

func (writer) Name() string { return "writer" }

func (writer) Stream(_ context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		done := model.Chunk{Done: &model.Done{StopReason: "end_turn", Usage: event.Usage{InputTokens: 1, OutputTokens: 1}}}
		for _, m := range r.Messages {
			if m.Role == model.RoleTool {
				_ = yield(model.Chunk{Text: "it is written"}, nil) && yield(done, nil)
				return
			}
		}
		done.Done.StopReason = "tool_use"
		args := event.Raw(`{"path":"out.txt","content":"x"}`)
		_ = yield(model.Chunk{ToolCall: &model.ToolCall{ProviderID: "c1", Name: "write_file", Arguments: args}}, nil) && yield(done, nil)
	}
}

// served is another runtime that takes work over one binding of the protocol.
type served struct {
	url, dir string
	runtime  *agentd.Runtime
}

func serve(t *testing.T, binding string) *served {
	t.Helper()
	s := &served{dir: t.TempDir()}
	registry, err := tool.NewRegistry(tool.Builtins(&tool.Options{})...)
	if err != nil {
		t.Fatal(err)
	}
	wiring := agentd.Options{
		Store: storetest.NewMem(), Provider: writer{}, Model: "writer", Loop: loop.Options{Tools: registry, Workspace: s.dir},
	}
	if s.runtime, err = agentd.Open(context.Background(), wiring); err != nil {
		t.Fatal(err)
	}
	var peers *a2a.Server
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == a2a.CardPath:
			only(w, r, peers.CardHandler(), binding)
		case r.Header.Get("Authorization") != "Bearer them":
			http.Error(w, "no", http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, a2a.RESTPath):
			peers.RESTHandler().ServeHTTP(w, r)
		default:
			peers.RPCHandler().ServeHTTP(w, r)
		}
	}))
	s.url = srv.URL
	if peers, err = a2a.New(a2a.Options{
		Runtime: s.runtime.Port(), Card: a2a.CardInfo{Name: "test", Description: "d", URL: srv.URL, Version: "1"},
		Caller: func(context.Context) (command.Caller, command.Role, bool) {
			return command.Caller{Account: "us", Actor: event.Actor{Kind: "user", ID: "us"}}, command.RoleClient, true
		},
	}); err != nil {
		t.Fatal(err)
	}
	peers.Start(context.Background())
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		peers.Close()
		if err := s.runtime.Close(context.Background()); err != nil {
			t.Error(err)
		}
		replaytest.Recorded(t, wiring.Store)
		if err := wiring.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// only serves the card with the interfaces of one binding.
func only(w http.ResponseWriter, r *http.Request, card http.Handler, binding string) {
	rec := httptest.NewRecorder()
	card.ServeHTTP(rec, r)
	var c object
	if err := json.Unmarshal(rec.Body.Bytes(), &c); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list, _ := c["supportedInterfaces"].([]any)
	c["supportedInterfaces"] = slices.DeleteFunc(list, func(i any) bool { return i.(object)["protocolBinding"] != binding })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c)
}

// An approval that a runtime needs for work that it was given is asked where the
// work came from, and the answer goes back.
func TestAnApprovalBetweenRuntimes(t *testing.T) {
	for _, binding := range []string{"JSONRPC", "HTTP+JSON"} {
		for _, delivery := range []string{"streaming", "polling"} {
			t.Run(binding+" "+delivery, func(t *testing.T) {
				s := serve(t, binding)
				k := newKit(t, newFake(t), func(o *peer.Options) {
					o.Peers[0].CardURL, o.Peers[0].Delivery = s.url, delivery
					o.Peers[0].Token = func() string { return "them" }
				})
				k.delegate()
				asked := k.await(0, func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
				p := asked.Payload.(*event.ActionRequired)
				if !slices.Contains(p.Decisions, "allow") || !slices.Contains(p.Decisions, "deny") || p.Prompt == "" {
					t.Errorf("the question is %+v", p)
				}
				runCommand[command.RespondActionResult](k, &command.RespondAction{ActionID: asked.ActionID, Decision: "allow"})
				k.becomes("completed")
				if b, err := os.ReadFile(filepath.Join(s.dir, "out.txt")); err != nil || !bytes.Equal(b, []byte("x")) {
					t.Errorf("there the file is %q, %v", b, err)
				}
				// Remote channels, "A2A alignment": in-task authorization is a permission,
				// on the side that delegates as well.
				if p.ActionType != "tool_permission" || p.ToolName != "write_file" || !p.OnceOnly {
					t.Errorf("the question is %+v", p)
				}
				for _, typ := range []event.Type{event.TypePermissionRequested, event.TypeChannelPermissionForwarded, event.TypePermissionResolved, event.TypeChannelPermissionReturned} {
					if list := k.facts(typ); len(list) != 1 || list[0].ActionID != asked.ActionID {
						t.Errorf("%d facts %s", len(list), typ)
					}
				}
				if back := k.facts(event.TypeChannelPermissionReturned); len(back) == 1 {
					if p := back[0].Payload.(*event.ChannelPermissionReturned); p.Decision != "allow" || p.FinalDecider != "local" || p.AnswerSource != "user" || back[0].ChannelID == "" {
						t.Errorf("returned %+v over %q", p, back[0].ChannelID)
					}
				}
				if n := len(k.facts(event.TypeActionRequired)); n != 1 {
					t.Errorf("%d questions", n)
				}
				out := k.facts(event.TypeArtifactChanged)[0].Payload.(*event.ArtifactChanged)
				if got := k.output(out.ReadRef); got != "it is written" {
					t.Errorf("stored: %q", got)
				}
				// "A2A alignment": the channel that facts name is one that list_channels
				// shows, and it is connected before a task is linked to it.
				linked, connected := k.facts(event.TypeChannelPeerTaskLinked)[0], k.facts(event.TypeChannelConnected)
				list := runCommand[command.ListChannelsResult](k, &command.ListChannels{SessionID: sess}).Channels
				if len(connected) != 1 || connected[0].Sequence > linked.Sequence || len(list) != 1 || list[0].ChannelID != linked.ChannelID {
					t.Errorf("linked at %d to %s; connected %+v, listed %+v", linked.Sequence, linked.ChannelID, connected, list)
				}
				k.await(linked.Sequence, func(e *event.Event) bool {
					return e.Type == event.TypeChannelDisconnected && e.ChannelID == linked.ChannelID
				})
				link := linked.Payload.(*event.PeerTaskLinked)
				rec, err := s.runtime.Do(context.Background(), command.Caller{Account: "us"}, &command.GetPeerTask{
					PeerTaskKey: command.PeerTaskKey{NativeProtocol: "a2a", RemoteTaskID: link.RemoteTaskID},
				})
				if err != nil || rec.(*command.PeerTaskRecord).Status != "completed" || link.DeliveryMechanism != delivery {
					t.Errorf("there it is %+v, %v; followed by %s", rec, err, link.DeliveryMechanism)
				}
			})
		}
	}
}
