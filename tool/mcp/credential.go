package mcp

import (
	"context"
	"fmt"
	"slices"

	"agentd/event"
	"agentd/tool"
)

// signInName is what the tool is called that connects to a server which wants a
// credential first.
const signInName = "sign_in"

// credentialName is what facts call the credential of a server.
func (s *server) credentialName() string { return "mcp:" + s.cfg.ID }

// credentialNeed is what a call lacks that the server refused; nil if nothing could be chosen.
func (s *server) credentialNeed() *tool.Need {
	if len(s.cfg.Credentials) == 0 || s.opts.Credential == nil {
		return nil
	}
	return &tool.Need{
		Name: s.credentialName(), For: fmt.Sprintf("the MCP server %q", s.cfg.ID), References: slices.Clone(s.cfg.Credentials),
	}
}

// bearer reads the token for a request; empty if none was chosen. It is read each
// time, so that it is nowhere but where it is used, and a new one counts at once.
func (s *server) bearer() (string, error) {
	s.mu.Lock()
	ref := s.chosen
	s.mu.Unlock()
	if ref == "" {
		return "", nil
	}
	token, err := s.opts.Credential(ref)
	if err != nil {
		s.noteUnauthorized() // another one can be chosen
		return "", fmt.Errorf("the credential %s can't be read: %w", ref, err)
	}
	return token, nil
}

// noteUnauthorized notes that the server takes no request with what it is given, or that
// there is nothing to give.
func (s *server) noteUnauthorized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses, s.rejected = true, s.chosen
}

// useCredential takes the reference that a user chose, unless the present one works. A server
// that can't be had is tried again at once.
func (s *server) useCredential(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ref == "" || s.credentialNeed() == nil || !slices.Contains(s.cfg.Credentials, ref) || (s.chosen != "" && s.chosen != s.rejected) {
		return
	}
	s.chosen, s.rejected = ref, ""
	s.choices++
	if s.state != Unavailable {
		return
	}
	s.state = Starting
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wantsCredential says that the server can't be had for want of a credential.
// The caller holds the lock.
func (s *server) wantsCredential() bool {
	return s.state != Ready && s.state != Closed && s.refuses && s.credentialNeed() != nil
}

// signIn is the tool that connects to a server which wants a credential first.
func (s *server) signIn() *remote {
	return &remote{server: s, signsIn: true, info: event.ToolInfo{
		ToolName: s.prefix + signInName,
		Description: fmt.Sprintf("The MCP server %s offers nothing before it is given a credential. Call this if you need "+
			"its tools: the person is asked which credential to use, and then they are offered.", cleanText(s.cfg.ID, 100)),
		InputSchema: event.Raw(`{"type":"object","properties":{},"additionalProperties":false}`), Capabilities: []string{"mcp:" + s.cfg.ID},
		RuntimeOwner: "mcp_server", IsReadOnly: true, InterruptBehavior: "cancel",
	}}
}

// connect waits for a connection and says what it brought.
func (r *remote) connect(ctx context.Context) (*tool.Result, error) {
	if _, err := r.server.currentLink(ctx, nil); err != nil {
		return nil, r.notReached(ctx, err)
	}
	text := fmt.Appendf(nil, "The MCP server %q is connected. Its tools:", r.server.cfg.ID)
	for _, t := range r.server.snapshot() {
		text = append(append(text, '\n'), t.info.ToolName...)
	}
	return &tool.Result{Output: text}, nil
}

// refusesAll says that the server can't be had for want of a credential.
func (s *server) refusesAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuses && s.state != Ready
}
