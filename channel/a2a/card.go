package a2a

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel"
	"agentd/command"
)

// Media types of parts. Any text is taken too.
var (
	inputModes  = []string{"text/plain", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}
	outputModes = []string{"text/plain", "application/json"}
)

// card is the agent card, made once.
type card struct {
	public  proto.AgentCard
	encoded []byte
	etag    string
	made    time.Time
	maxAge  time.Duration
}

func newCard(o *Options, push bool) (*card, error) {
	c := &card{made: o.Clock().UTC().Truncate(time.Second), maxAge: o.Card.MaxAge}
	base := strings.TrimSuffix(o.Card.URL, "/")
	c.public = proto.AgentCard{
		Name: o.Card.Name, Description: o.Card.Description, Version: o.Card.Version,
		SupportedInterfaces: []*proto.AgentInterface{
			{URL: base + RPCPath, ProtocolBinding: proto.TransportProtocolJSONRPC, ProtocolVersion: Version},
			{URL: base + RESTPath, ProtocolBinding: proto.TransportProtocolHTTPJSON, ProtocolVersion: Version},
		},
		Capabilities: proto.AgentCapabilities{
			Streaming: true, PushNotifications: push, ExtendedAgentCard: o.Card.Extended, Extensions: o.Card.Extensions,
		},
		DefaultInputModes: inputModes, DefaultOutputModes: outputModes,
		Skills: []proto.AgentSkill{{
			ID: "work", Name: "Work on a task",
			Description: "Takes a task in plain language, works on it with its tools, asks when it needs an answer or an approval, and delivers the result as an artifact.",
			Tags:        []string{"agent", "tasks"},
		}},
		SecuritySchemes: proto.NamedSecuritySchemes{
			"bearer": proto.HTTPAuthSecurityScheme{Scheme: "Bearer", Description: "A token of this server."},
		},
		// No securityRequirements: clients in use read two forms of them that exclude
		// each other.
	}
	var err error
	if c.encoded, err = json.Marshal(&c.public); err != nil {
		return nil, fmt.Errorf("agent card: %w", err)
	}
	s := sum(string(c.encoded))
	c.etag = `"` + hex.EncodeToString(s[:12]) + `"`
	return c, nil
}

// serveCard answers with the public card, or says that the one that the caller has
// is still right.
func (s *Server) serveCard(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != CardPath { // what is below it is not public
		writeREST(w, r, errorf(methodNotFound, "there is nothing at this address"))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeREST(w, r, errorf(wrongMethod, "the agent card only accepts GET"))
		return
	}
	h := w.Header()
	h.Set("Content-Type", restType(r))
	h.Set("ETag", s.card.etag)
	h.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(s.card.maxAge/time.Second)))
	h.Add("Vary", "Accept")
	http.ServeContent(w, r, "", s.card.made, bytes.NewReader(s.card.encoded))
}

// extendedCard is the card for clients with a token; it lists the tools.
func (s *Server) extendedCard(ctx context.Context, c *call) (*proto.AgentCard, error) {
	if !s.card.public.Capabilities.ExtendedAgentCard {
		return nil, errorf(unsupported, "this agent has no extended card")
	}
	inventory, err := channel.ResultOf[command.GetToolInventoryResult](s.runCommand(ctx, c, &command.GetToolInventory{}))
	if err != nil {
		return nil, err
	}
	out := s.card.public
	out.Skills = slices.Clone(out.Skills)
	for _, t := range inventory.Tools {
		out.Skills = append(out.Skills, proto.AgentSkill{
			ID: "tool-" + t.ToolName, Name: t.ToolName, Description: orElse(t.Description, t.ToolName), Tags: []string{"tool"},
		})
	}
	return &out, nil
}

// checkExtensions refuses a request that doesn't activate what the card requires.
func (s *Server) checkExtensions(active []string) error {
	for _, e := range s.card.public.Capabilities.Extensions {
		if e.Required && !slices.Contains(active, e.URI) {
			return errorf(extensionRequired, "the extension %s is required; name it in A2A-Extensions", e.URI)
		}
	}
	return nil
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
