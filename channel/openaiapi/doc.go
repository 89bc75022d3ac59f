// Package openaiapi lets any client of OpenAI's API talk to an agentd agent: chat
// completions, responses and models, each streamed or whole.
//
// # Contract
//
// It is an adapter over [command.Runtime] and keeps nothing of its own: a request
// is a turn, an id of an answer names its session and turn, and what is answered
// follows from the turn's facts, also after a restart.
//
//   - The model "agentd" is the agent with its default model; "provider/model" is
//     the agent with that one. Tools run inside agentd; a request that brings tools
//     of its own is refused.
//   - A conversation goes on in a session when the request names one: the header
//     X-Agentd-Session or metadata.session_id (made if there is none), conversation,
//     previous_response_id. Then only what comes after the last answer is the turn's
//     input. Otherwise the turn has a new session and the whole history as its input.
//   - A turn that needs an answer waits for a bounded time. Then the
//     request fails with the code action_required and the action's id; the turn goes
//     on waiting, and GET /v1/responses/ID tells what became of it.
//   - A client that goes away interrupts its turn, unless it was asked for in the
//     background. A server that stops doesn't.
//
// What a provider would do with temperature and the like is the configuration's
// affair here; such fields are accepted and have no effect.
//
// # Concurrency
//
// The handler may serve any number of requests at once. It starts no goroutines.
package openaiapi
