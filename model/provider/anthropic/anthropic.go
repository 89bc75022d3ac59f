// Package anthropic is the provider for Anthropic's messages protocol.
//
// # Contract
//
// The provider keeps the contract of package model; package httpstream says what
// holds for every server.
//
//   - Results of parallel tool calls go into one message, as the API wants it.
//   - The prefix that doesn't change, tools and system, is marked for the cache, and
//     so are the ends of the conversation at this request and at the one before.
//   - Thinking blocks go back with their signatures: an answer that has them is
//     given back block by block as it came.
//   - Usage counts what was read from and written to the cache as input.
//   - The API has no output schema that every model knows: the schema is put after
//     the system text, and the answer is the caller's to check.
//
// Thinking is asked for with Options.Extra, for example
// {"thinking": {"type": "adaptive"}}.
package anthropic

import (
	"context"
	"iter"
	"strings"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// Options are the settings of a provider.
type Options = httpstream.Options

// BaseURL is where Anthropic answers.
const BaseURL = "https://api.anthropic.com"

const (
	// version of the API whose forms are used here.
	version = "2023-06-01"
	// defaultMaxTokens is asked for if the request doesn't say: the API wants a
	// number.
	defaultMaxTokens = 16384
)

// Provider asks a server that speaks the messages protocol.
type Provider struct {
	conn *httpstream.Conn
	form string
	path string
}

// New returns a provider with the options. The base URL may end with the version
// or not.
func New(o Options) *Provider {
	o.BaseURL = strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/messages")
	c := httpstream.New(o, "anthropic", BaseURL)
	p := &Provider{conn: c, form: "anthropic/" + c.Name(), path: "v1/messages"}
	if strings.HasSuffix(c.BasePath(), "/v1") {
		p.path = "messages"
	}
	return p
}

// Name implements [model.Provider].
func (p *Provider) Name() string { return p.conn.Name() }

// Stream implements [model.Provider].
func (p *Provider) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return p.conn.Stream(ctx, r, func() httpstream.Exchange {
		h := p.conn.Authorization("X-Api-Key", "")
		h.Set("Anthropic-Version", version)
		return httpstream.Exchange{Path: p.path, Header: h, Body: p.body(r), Decoder: &decoder{}}
	})
}
