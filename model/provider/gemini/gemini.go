// Package gemini is the provider for Google's Gemini protocol.
//
// # Contract
//
// The provider keeps the contract of package model; package httpstream says what
// holds for every server.
//
//   - The protocol names no calls in its older form: calls get an id here, which is
//     not sent back. Ids that the server gave are.
//   - Thought signatures go back at the parts that they came with. Newer models
//     refuse a function call without one, so a call that another provider made gets
//     the value that the vendor gives for that case.
//   - An output schema goes out in the older form where it can say it, otherwise as
//     a JSON Schema.
//   - The key is sent in a header, never in the address.
package gemini

import (
	"context"
	"iter"
	"net/url"
	"regexp"
	"strings"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// Options are the settings of a provider.
type Options = httpstream.Options

// BaseURL is where Google answers.
const BaseURL = "https://generativelanguage.googleapis.com/v1beta"

// Provider asks a server that speaks the Gemini protocol.
type Provider struct {
	conn   *httpstream.Conn
	prefix string
}

var versionPattern = regexp.MustCompile(`(^|/)v\d+(alpha|beta)?\d*(/|$)`)

// New returns a provider with the options. The base URL may hold the version or
// not.
func New(o Options) *Provider {
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	c := httpstream.New(o, "gemini", BaseURL)
	p := &Provider{conn: c}
	if !versionPattern.MatchString(c.BasePath()) {
		p.prefix = "v1beta/"
	}
	return p
}

// Name implements [model.Provider].
func (p *Provider) Name() string { return p.conn.Name() }

// Stream implements [model.Provider].
func (p *Provider) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return p.conn.Stream(ctx, r, func() httpstream.Exchange {
		h := p.conn.Authorization("X-Goog-Api-Key", "")
		return httpstream.Exchange{
			Path: p.path(r.Model), Query: url.Values{"alt": {"sse"}}, Header: h, Body: p.body(r), Decoder: &decoder{},
		}
	})
}

// path of a model. One with slashes names its collection itself.
func (p *Provider) path(name string) string {
	if !strings.Contains(name, "/") {
		name = "models/" + name
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return p.prefix + strings.Join(parts, "/") + ":streamGenerateContent"
}

var generationPattern = regexp.MustCompile(`^(?:.*/)?gemini-(\d+)(?:\.(\d+))?`)

// generation returns the number in a model's name, times ten: 25 for 2.5.
func generation(name string) int {
	m := generationPattern.FindStringSubmatch(strings.ToLower(name))
	if len(m) == 0 || len(m[1]) > 3 {
		return 0
	}
	n := 0
	for _, c := range m[1] {
		n = n*10 + int(c-'0')
	}
	n *= 10
	if m[2] != "" {
		n += int(m[2][0] - '0')
	}
	return n
}

// thinks tells models that can show their thoughts; others refuse to be asked.
func thinks(name string) bool {
	if generation(name) < 25 {
		return false
	}
	for _, special := range []string{"image", "tts", "live", "audio", "lite", "embedding"} {
		if strings.Contains(name, special) {
			return false
		}
	}
	return true
}

// signs tells models that refuse a function call without a thought signature.
func signs(name string) bool { return generation(name) >= 30 }
