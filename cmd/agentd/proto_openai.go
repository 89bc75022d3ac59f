package main

import (
	"context"
	"net/http"
	"time"

	"agentd/channel/openaiapi"
	"agentd/command"
	"agentd/fault"
	"agentd/server"
)

// openaiMounts are the addresses of the OpenAI-compatible endpoint. They are below
// /v1/ because its clients add the rest of the path themselves; no name of the wire
// contract begins with one of them.
func (s *serving) openaiMounts(rt command.Runtime) []server.Mount {
	models := s.modelIDs(s.loaded.Config)
	api := openaiapi.New(openaiapi.Options{
		Runtime: &permitted{rt}, Caller: callerOf, PassOn: server.PassOn, Logger: s.log, ActionWait: time.Minute,
		Models: func() []string { return models },
	})
	return []server.Mount{
		{Prefix: "/v1/chat/completions", Handler: api, Refuse: api.Refuse},
		{Prefix: "/v1/responses", Handler: api, Refuse: api.Refuse},
		{Prefix: "/v1/models", Handler: api},
	}
}

func callerOf(r *http.Request) (command.Caller, bool) { return server.CallerFrom(r.Context()) }

// permitted lets a mounted adapter do what the request's token may, and no more.
type permitted struct{ command.Runtime }

// Do implements [command.Runtime].
func (p *permitted) Do(ctx context.Context, c command.Caller, params command.Params) (any, error) {
	need := command.Need(params)
	if role, ok := server.RoleFrom(ctx); !ok || !role.Allows(need) {
		return nil, fault.New(fault.Forbidden, "%s needs a token with the role %s", params.Command(), need)
	}
	if err := params.Validate(); err != nil {
		return nil, err
	}
	return p.Runtime.Do(ctx, c, params)
}
