package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
)

// Exit statuses with a meaning.
const (
	exitGood  = 0
	exitBlock = 2
)

// exec runs a command hook.
func (o *one) exec(ctx context.Context, stdin []byte) (*answer, *failure) {
	env := o.h.Env
	if tr := o.trace(ctx); tr.Parent() != "" {
		env = append(slices.Clone(env), "TRACEPARENT="+tr.Parent())
		if tr.State != "" {
			env = append(env, "TRACESTATE="+tr.State)
		}
	}
	exit, err := o.r.opt.Exec(ctx, Command{
		Argv: o.h.Command, Env: env, Cwd: o.cwd(), Stdin: stdin, MaxOutput: MaxAnswer, Profile: o.h.Profile,
		Confined: func(b *event.SandboxApplied) error { return o.confined(ctx, b) },
	})
	if known, ok := errors.AsType[*Failure](err); ok {
		return nil, &failure{category: known.Category, message: clip.Valid(known.Message, maxReason), retryable: known.Retryable}
	}
	if err != nil {
		return nil, &failure{category: "spawn", message: clip.Valid(err.Error(), maxReason), retryable: false}
	}
	if ctx.Err() != nil {
		return nil, &failure{category: "timeout", message: "it was ended"}
	}
	said := strings.TrimSpace(clip.Valid(string(exit.Stderr), maxReason))
	switch exit.Code {
	case exitGood:
		return decodeAnswer(exit.Stdout)
	case exitBlock:
		if said == "" {
			said = "the hook gave no reason"
		}
		return &answer{decision: Block, reason: said}, nil
	}
	message := fmt.Sprintf("exit status %d", exit.Code)
	if said != "" {
		message += ": " + said
	}
	return nil, &failure{category: "exit", message: message}
}

// confined records the boundary of the run's process.
func (o *one) confined(ctx context.Context, b *event.SandboxApplied) error {
	fact := *b
	fact.HookRunID = o.id
	if err := o.rec.Report(context.WithoutCancel(ctx), &fact); err != nil {
		return fmt.Errorf("record its boundary: %w", err)
	}
	return nil
}

// cwd is where a command starts: the workspace, so that a relative command is
// found there whatever the call's folder is.
func (o *one) cwd() string {
	if o.in.Workspace != "" {
		return o.in.Workspace
	}
	return o.in.Cwd
}

// trace is the trace context of the run; it has no parent if the work has none.
func (o *one) trace(ctx context.Context) event.Trace {
	return event.TraceFrom(ctx).Span(o.in.SessionID, o.id)
}

func decodeAnswer(data []byte) (*answer, *failure) {
	a, err := parseAnswer(data)
	if err != nil {
		return nil, &failure{category: "malformed", message: err.Error()}
	}
	return a, nil
}

// post makes an HTTP hook's call.
func (o *one) post(ctx context.Context, body []byte) (*answer, *failure) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, &failure{category: "internal", message: clip.Valid(err.Error(), maxReason)}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if tr := o.trace(ctx); tr.Parent() != "" {
		req.Header.Set("Traceparent", tr.Parent())
		if tr.State != "" {
			req.Header.Set("Tracestate", tr.State)
		}
	}
	resp, err := o.r.http.Do(req)
	if err != nil {
		return nil, &failure{category: "network", message: clip.Valid(causeWithoutURL(err).Error(), maxReason), retryable: true}
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case resp.StatusCode/100 != 2:
		return nil, &failure{category: "network", message: "HTTP status " + resp.Status, retryable: resp.StatusCode >= http.StatusInternalServerError}
	case err != nil:
		return nil, &failure{category: "network", message: clip.Valid(err.Error(), maxReason), retryable: true}
	}
	return decodeAnswer(content)
}

// causeWithoutURL is what went wrong, without the address: it may carry a token.
func causeWithoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// maxRedirects is how often a hook may be sent on, at its own origin.
const maxRedirects = 3

// sameOriginClient returns a client that follows no redirect to another origin, and none
// that drops the body: a hook's input goes where the operator said, or
// nowhere.
func sameOriginClient(base *http.Client) *http.Client {
	c := http.Client{}
	if base != nil {
		c = *base
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		c.Transport = t.Clone()
	}
	c.Jar = nil
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0].URL
		switch {
		case req.URL.Scheme != first.Scheme || req.URL.Host != first.Host:
			return errors.New("a redirect leads to another origin")
		case req.Method != http.MethodPost:
			return errors.New("a redirect drops the request's body")
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}
	return &c
}
