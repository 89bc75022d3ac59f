package httpstream

import (
	"net/http"
	"slices"
	"strings"

	"agentd/model"
)

// classifyFailure decides what a failure means and whether asking again may help. What
// a vendor says exactly beats the status, and the status beats a vendor's word
// for a whole class.
func classifyFailure(f *Failure) (category string, retryable bool) {
	if c, retry, ok := exact(f); ok {
		return c, retry
	}
	if f.HTTPStatus != 0 {
		return byStatus(f.HTTPStatus)
	}
	return byWord(f)
}

// exact recognises what a status is too coarse for.
func exact(f *Failure) (category string, retryable, ok bool) {
	word := func(words ...string) bool {
		return slices.Contains(words, strings.ToLower(f.Code)) || slices.Contains(words, strings.ToLower(f.Type))
	}
	message := strings.ToLower(f.Message)
	says := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(message, p) })
	}
	limited := f.HTTPStatus == http.StatusTooManyRequests
	switch {
	case word("insufficient_quota", "billing_hard_limit_reached", "billing_error", "usage_limit_reached", "usage_not_included") ||
		f.HTTPStatus == http.StatusPaymentRequired || says("credit balance is too low"):
		// Waiting doesn't fill an account, but another provider may be asked.
		return model.RateLimited, false, true
	case word("context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded", "request_too_large"), !limited && says(overflowWords...):
		return model.ContextOverflow, false, true
	case word("content_filter", "content_policy_violation", "invalid_prompt", "responsibleaipolicyviolation", "moderation_blocked"):
		return model.ContentFilter, false, true
	case word("api_key_invalid", "invalid_api_key", "authentication_error", "permission_error"), says("api key not valid"):
		return model.Auth, false, true
	case word("overloaded_error", "overloaded", "server_is_overloaded", "slow_down", "engine_overloaded"):
		return model.Overloaded, true, true
	}
	return "", false, false
}

// overflowWords are how servers say that the conversation doesn't fit, where they
// have no code for it.
var overflowWords = []string{
	"maximum context length", "context length exceeded", "exceeds the context window", "context window exceeds", "exceed context limit",
	"prompt is too long", "input is too long", "exceeds the maximum number of tokens", "exceeds the available context size",
	"reduce the length of the messages", "maximum prompt length", "larger than the maximum context", "input length and `max_tokens` exceed",
	"too large for model with", "longer than the model's context length", "exceeds model context",
}

func byStatus(status int) (category string, retryable bool) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return model.Auth, false
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, 522, 524: // the last two are a well-known proxy's
		return model.Timeout, true
	case http.StatusConflict, http.StatusTooEarly:
		return model.ServerError, true
	case http.StatusRequestEntityTooLarge:
		return model.ContextOverflow, false
	case http.StatusTooManyRequests:
		return model.RateLimited, true
	case http.StatusServiceUnavailable, 529: // the second is "overloaded" of one vendor
		return model.Overloaded, true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return model.ServerError, false
	}
	if status >= 500 {
		return model.ServerError, true
	}
	return model.InvalidRequest, false
}

// byWord classifies an error inside a stream, where there is no status.
func byWord(f *Failure) (category string, retryable bool) {
	words := strings.ToLower(f.Code + " " + f.Type)
	for _, row := range wordTable {
		if slices.ContainsFunc(row.words, func(w string) bool { return strings.Contains(words, w) }) {
			return row.category, row.retryable
		}
	}
	return model.ServerError, true
}

var wordTable = []struct {
	category  string
	retryable bool
	words     []string
}{
	{model.RateLimited, true, []string{"rate_limit", "resource_exhausted", "too_many_requests"}},
	{model.Overloaded, true, []string{"overload", "unavailable"}},
	{model.Timeout, true, []string{"timeout", "deadline_exceeded"}},
	{model.Auth, false, []string{"authentication", "permission", "unauthenticated", "unauthorized", "forbidden"}},
	{model.InvalidRequest, false, []string{"invalid", "not_found", "badrequest", "bad_request", "failed_precondition", "unsupported", "out_of_range"}},
}
