package acp

import (
	"context"
	"slices"
	"strings"

	"agentd/command"
	"agentd/fault"
)

// modes are the permission modes in the protocol's words, the careful ones first.
var modes = []sessionMode{
	{"default", "Default", "Reads run, everything else is asked about"},
	{"untrusted", "Untrusted", "Reads inside the workspace run, everything else is asked about"},
	{"plan", "Plan", "Reads only, the rest is denied"},
	{"auto", "Auto", "Reads, and writes and commands inside the sandbox, run; leaving it is asked about"},
	{"on_request", "On request", "Like auto, and the model may ask for more"},
	{"on_failure", "On failure", "Like auto, and what the sandbox stopped is asked about"},
	{"never", "Never ask", "Like auto, and what would be asked about is denied"},
	{"bypass", "Bypass", "Nothing is asked about but what a rule says; the sandbox holds"},
}

// Settings of a session.
const (
	configMode  = "mode"
	configModel = "model"
)

// sessionResult returns what a client learns of a session that it opens.
func (s *session) sessionResult(ctx context.Context, p *sessionParams) (*sessionResult, error) {
	policy, err := runCommand[command.PolicyResult](ctx, s.a, &command.GetPolicy{SessionID: s.id})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.mode = policy.Mode
	s.mu.Unlock()
	options, err := s.configOptions(ctx)
	if err != nil {
		return nil, err
	}
	res := &sessionResult{Modes: &modeState{policy.Mode, modes}, ConfigOptions: options}
	if len(p.MCPServers) > 0 {
		names := make([]string, len(p.MCPServers))
		for i := range p.MCPServers {
			names[i] = p.MCPServers[i].Name
		}
		list := strings.Join(names, ", ")
		s.a.opt.Logger.Warn("MCP servers from the client are ignored; configure them in agentd", "servers", list)
		res.Meta = jsonObject("agentd/ignoredMcpServers", list)
	}
	return res, nil
}

// configOptions returns the session's settings with their values.
func (s *session) configOptions(ctx context.Context) ([]configOption, error) {
	s.mu.Lock()
	mode, chosen := s.mode, s.model
	s.mu.Unlock()
	o := configOption{Type: "select", ID: configMode, Name: "Permission mode", Category: "mode", CurrentValue: mode}
	for _, m := range modes {
		o.Options = append(o.Options, configChoice{m.ID, m.Name, m.Description})
	}
	out := []configOption{o}
	models, err := s.a.models(ctx)
	if err != nil || len(models) == 0 {
		return out, err
	}
	o = configOption{Type: "select", ID: configModel, Name: "Model", Category: "model", CurrentValue: chosen}
	for _, m := range models {
		if o.CurrentValue == "" && m.Default {
			o.CurrentValue = m.ID
		}
		o.Options = append(o.Options, configChoice{Value: m.ID, Name: m.ID})
	}
	if !slices.ContainsFunc(models, func(m Model) bool { return m.ID == o.CurrentValue }) {
		// A model that was taken out of the configuration is still the one that the
		// session has.
		o.Options = append(o.Options, configChoice{Value: o.CurrentValue, Name: o.CurrentValue + " (not configured)"})
	}
	return append(out, o), nil
}

func (a *Agent) models(ctx context.Context) ([]Model, error) {
	if a.opt.Models == nil {
		return nil, nil
	}
	return a.opt.Models(ctx)
}

type setModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
}

func (a *Agent) setMode(ctx context.Context, p *setModeParams) (any, func(), error) {
	s, err := a.findSession(p.SessionID)
	if err != nil {
		return nil, nil, err
	}
	return &offered{}, nil, s.setMode(ctx, p.ModeID)
}

// setMode changes the session's policy; the client learns it from the fact.
func (s *session) setMode(ctx context.Context, mode string) error {
	if !slices.ContainsFunc(modes, func(m sessionMode) bool { return m.ID == mode }) {
		return errorf(fault.RPCInvalidParams, "unknown mode %.40q", mode)
	}
	_, err := runCommand[command.PolicyResult](ctx, s.a, &command.SetPolicy{SessionID: s.id, Mode: mode, Reason: "chosen in the editor"})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.mode = mode
	s.mu.Unlock()
	return nil
}

type setConfigParams struct {
	SessionID string `json:"sessionId"`
	ConfigID  string `json:"configId"`
	Value     string `json:"value"`
}

func (a *Agent) setConfigOption(ctx context.Context, p *setConfigParams) (any, func(), error) {
	s, err := a.findSession(p.SessionID)
	if err != nil {
		return nil, nil, err
	}
	switch p.ConfigID {
	case configMode:
		err = s.setMode(ctx, p.Value)
	case configModel:
		err = s.setModel(ctx, p.Value)
	default:
		err = errorf(fault.RPCInvalidParams, "unknown setting %.40q", p.ConfigID)
	}
	if err != nil {
		return nil, nil, err
	}
	options, err := s.configOptions(ctx)
	if err != nil {
		return nil, nil, err
	}
	return map[string]any{"configOptions": options}, nil, nil
}

func (s *session) setModel(ctx context.Context, id string) error {
	models, err := s.a.models(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(models, func(m Model) bool { return m.ID == id }) {
		return errorf(fault.RPCInvalidParams, "unknown model %.200q", id)
	}
	s.mu.Lock()
	s.model = id
	s.mu.Unlock()
	return nil
}
