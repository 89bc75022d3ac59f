// Package responses is the provider for OpenAI's Responses protocol.
//
// # Contract
//
// The provider keeps the contract of package model; package httpstream says what
// holds for every server. Nothing is stored at the server: each request carries
// the whole conversation, and reasoning comes back encrypted and goes back as it
// came, item by item, with the answer that it belongs to.
//
// Summaries of the reasoning are asked for with Options.Extra, for example
// {"reasoning": {"summary": "auto"}}; some accounts may not have them.
package responses

import (
	"context"
	"iter"
	"strings"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// Options are the settings of a provider.
type Options = httpstream.Options

// BaseURL is where OpenAI answers.
const BaseURL = "https://api.openai.com/v1"

// Provider asks a server that speaks the Responses protocol.
type Provider struct {
	conn *httpstream.Conn
	form string
	path string
}

// New returns a provider with the options.
func New(o Options) *Provider {
	o.BaseURL = strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/responses")
	c := httpstream.New(o, "openai_responses", BaseURL)
	p := &Provider{conn: c, form: "responses/" + c.Name(), path: "responses"}
	if c.BasePath() == "" {
		p.path = "v1/responses"
	}
	return p
}

// Name implements [model.Provider].
func (p *Provider) Name() string { return p.conn.Name() }

// Stream implements [model.Provider].
func (p *Provider) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return p.conn.Stream(ctx, r, func() httpstream.Exchange {
		h := p.conn.Authorization("Authorization", "Bearer ")
		return httpstream.Exchange{Path: p.path, Header: h, Body: p.body(r), Decoder: &decoder{}}
	})
}
