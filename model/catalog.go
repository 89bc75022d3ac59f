package model

import (
	"cmp"
	"slices"
	"strings"

	"agentd/event"
)

// Capabilities that a model may have and a turn may need.
const (
	CapTools            = "tools"
	CapStreaming        = "streaming"
	CapVision           = "vision"
	CapReasoning        = "reasoning"
	CapStructuredOutput = "structured_output"
)

// Info is what is known about one model of one provider.
type Info struct {
	// Provider is the provider's id in facts and configuration, Model its name of
	// the model.
	Provider string
	Model    string
	// Capabilities that the model has; one that isn't listed counts as missing.
	Capabilities []string
	// ContextWindow is how many tokens a request and its answer may have together,
	// MaxOutputTokens how many the answer alone. 0 is unknown and excludes nothing.
	ContextWindow   int64
	MaxOutputTokens int64
	// Price of the model; nil if none is known.
	Price *Price
	// Limits that the runtime keeps on its own side.
	Limits Limits
	// HasCredential says that a key is there, NeedsCredential that one is needed.
	HasCredential   bool
	NeedsCredential bool
	// CredentialHint says how to give the key, such as "set LOCAL_API_KEY". It
	// never holds the key.
	CredentialHint string
	// OnlyByName says why the model answers only turns that ask for it by name; empty
	// if it answers others, too.
	OnlyByName string `json:",omitempty"`
}

// ID names the model among all providers: "provider/model".
func (i Info) ID() string { return i.Provider + "/" + i.Model }

// Can reports whether the model has a capability.
func (i Info) Can(capability string) bool { return slices.Contains(i.Capabilities, capability) }

// Limits are what the runtime allows itself to ask a model; 0 is no limit.
type Limits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
}

// Price is what tokens cost.
type Price struct {
	Rates
	// Long replaces the rates for requests with a long input; nil if the price doesn't
	// depend on the length.
	Long *LongPrice
	// Row names where the figures come from, for the facts that use them.
	Row string
}

// LongPrice is the price of a request whose input is longer than Above tokens.
type LongPrice struct {
	Above int64
	Rates
}

// Rates are prices in US dollars for a million tokens.
type Rates struct {
	InputPerMTok  float64
	OutputPerMTok float64
	// CachedInputPerMTok is for the part of the input that the provider had kept.
	// 0 means that there is no discount: providers that give cached input away are
	// not known, and a forgotten figure must not make requests look free.
	CachedInputPerMTok float64
	// CacheWriteInputPerMTok is for the part of the input that the provider keeps for later
	// requests. 0 means that it costs what other input does.
	CacheWriteInputPerMTok float64
}

// cost is that of a usage, in millionths of a dollar.
func (r Rates) cost(u event.Usage) float64 {
	input, output := max(0, u.InputTokens), max(0, u.OutputTokens)
	read := min(max(0, u.CachedInputTokens), input)
	written := min(max(0, u.CacheWriteInputTokens), input-read)
	return float64(input-read-written)*r.InputPerMTok +
		float64(read)*cmp.Or(r.CachedInputPerMTok, r.InputPerMTok) +
		float64(written)*cmp.Or(r.CacheWriteInputPerMTok, r.InputPerMTok) +
		float64(output)*r.OutputPerMTok
}

// CacheWriteRate is what a vendor charges for input that it keeps for later requests, given its
// rate for input; 0 if that is no other.
func CacheWriteRate(vendor string, input float64) float64 {
	if vendor == "anthropic" {
		return 1.25 * input // for the five minutes that its adapter asks for
	}
	return 0
}

// Find returns the models that a name can mean, as indexes into models. With a
// provider the name is that provider's, with or without "provider/" before it.
// Without one, "provider/model" is looked for first, then the model's name at any
// provider: names of models may hold slashes themselves.
func Find(models []Info, provider, model string) []int {
	var exact, byName []int
	for i, m := range models {
		if provider != "" && m.Provider != provider {
			continue
		}
		switch model {
		case m.ID():
			exact = append(exact, i)
		case m.Model:
			byName = append(byName, i)
		}
	}
	if provider != "" {
		return append(exact, byName...)
	}
	if exact != nil {
		return exact
	}
	return byName
}

// Known reports whether a name means any of the models. A name that means none
// is the caller's mistake; one that can't be used now is a matter of routing.
func Known(models []Info, provider, model string) bool {
	if model == "" {
		return provider != "" && slices.ContainsFunc(models, func(m Info) bool { return m.Provider == provider })
	}
	return len(Find(models, provider, model)) > 0
}

// Lookup returns what the built-in table says about a model of a kind of
// provider (openai, openai_responses, anthropic, gemini). Names with a date or
// "-latest" after them are found under the name without. The result has no
// provider and no credential: those are the configuration's.
func Lookup(kind, model string) (Info, bool) {
	vendor := vendorOf(kind)
	for _, name := range []string{model, undated(model)} {
		for _, e := range builtin {
			if e.vendor == vendor && e.model == name {
				return e.info(model), true
			}
		}
	}
	return Info{}, false
}

// Builtin lists the models that the built-in table has for a kind of provider,
// in the table's order: the best suited to be a default first.
func Builtin(kind string) []Info {
	vendor := vendorOf(kind)
	var out []Info
	for _, e := range builtin {
		if e.vendor == vendor {
			out = append(out, e.info(e.model))
		}
	}
	return out
}

// Complete fills what a configured model leaves open: from the built-in table,
// and capabilities that nothing is known about with tools and streaming, which
// every provider of that kind offers as a rule. What is configured always wins.
// The table's price is taken only from the vendor itself: a server that speaks
// the same protocol under another address has prices of its own.
func Complete(configured Info, kind string, vendorAddress bool) Info {
	out := configured
	known, ok := Lookup(kind, configured.Model)
	if !ok {
		known.Capabilities = []string{CapTools, CapStreaming}
		if kind == "script" {
			known.Capabilities = append(known.Capabilities, CapReasoning, CapStructuredOutput, CapVision)
		}
	}
	if out.Capabilities == nil {
		out.Capabilities = known.Capabilities
	}
	if out.ContextWindow == 0 {
		out.ContextWindow = known.ContextWindow
	}
	if out.MaxOutputTokens == 0 {
		out.MaxOutputTokens = known.MaxOutputTokens
	}
	if out.Price == nil && vendorAddress {
		out.Price = known.Price
	}
	return out
}

func vendorOf(kind string) string {
	if kind == "openai_responses" {
		return "openai"
	}
	return kind
}

// undated cuts "-latest", "-20251001" and "-2025-08-07" off a model's name.
func undated(model string) string {
	if s, ok := strings.CutSuffix(model, "-latest"); ok {
		return s
	}
	for _, shape := range []string{"-dddddddd", "-dddd-dd-dd"} {
		if cut := len(model) - len(shape); cut > 0 && hasShape(model[cut:], shape) {
			return model[:cut]
		}
	}
	return model
}

// hasShape reports whether s is like shape, where d stands for a digit.
func hasShape(s, shape string) bool {
	for i := range len(shape) {
		digit := s[i] >= '0' && s[i] <= '9'
		if shape[i] == 'd' != digit || (!digit && s[i] != shape[i]) {
			return false
		}
	}
	return true
}
