// Package openai is the provider for the chat completions protocol: OpenAI's own
// and that of everything compatible with it, such as Ollama, vLLM, llama.cpp and
// OpenRouter.
//
// # Contract
//
// The provider keeps the contract of package model; package httpstream says what
// holds for every server. Compatible servers differ, and the provider takes what
// they do:
//
//   - no key: none is sent;
//   - no usage: it is estimated;
//   - tool calls without ids, or whole instead of in fragments;
//   - reasoning as reasoning_content, as reasoning, or as reasoning_details;
//   - an end without [DONE], or with nothing else;
//   - an error in the middle, as an event, as a field of its own, or flat;
//   - one JSON object in place of a stream.
//
// Reasoning goes back, in the form in which it came, with answers that ask for
// tools: models that reason between tool calls need it, and others refuse it
// elsewhere. Reasoning details always go back, and so does what a server adds to a
// tool call as extra_content.
//
// A server that doesn't take a member of the request gets it taken out with
// Options.Extra, for example {"stream_options": null}.
package openai

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

// Provider asks a server that speaks chat completions.
type Provider struct {
	conn *httpstream.Conn
	// form names the encoded messages: it differs between providers, because what
	// goes back to one doesn't go to another.
	form string
	// vendor says that the server is OpenAI's own, whose newer names the others
	// don't all know.
	vendor bool
	// bare says that the base URL has no path, and gets the usual one.
	bare bool
}

// New returns a provider with the options.
func New(o Options) *Provider {
	o.BaseURL = strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/chat/completions")
	c := httpstream.New(o, "openai", BaseURL)
	host := c.Host()
	return &Provider{
		conn: c, form: "openai/" + c.Name(),
		vendor: host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com"),
		bare:   c.BasePath() == "",
	}
}

// Name implements [model.Provider].
func (p *Provider) Name() string { return p.conn.Name() }

// Stream implements [model.Provider].
func (p *Provider) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return p.conn.Stream(ctx, r, func() httpstream.Exchange {
		x := httpstream.Exchange{Path: "chat/completions", Header: p.conn.Authorization("Authorization", "Bearer "), Body: p.body(r), Decoder: &decoder{}}
		if p.bare {
			x.Path = "v1/chat/completions"
		}
		return x
	})
}
