package mcpserver_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestACallThatIsCancelledWhileItIsAccepted interrupts its turn like one that is cancelled
// later.
func TestACallThatIsCancelledWhileItIsAccepted(t *testing.T) {
	for _, version := range []string{older, newer} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			k := newKit(t)
			k.leave = cancel
			s, end := k.start().stdio(version)
			defer end()
			if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"input": "wait long", "sessionId": "sess_c", "create": true}}); err == nil {
				t.Error("a cancelled call was answered")
			}
			if f := k.ended("sess_c"); f.Status != "cancelled" {
				t.Errorf("the turn ended as %s", f.Status)
			}
		})
	}
}
