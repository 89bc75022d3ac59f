package runtimetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"agentd"
	"agentd/hook"
)

// Hooks answer by a function and remember what they were told.
type Hooks struct {
	// Points are where hooks are called, Answer what they say there.
	Points []hook.Point
	Answer func(ctx context.Context, in *hook.Input, point string) (string, error)

	mu sync.Mutex
	// Told are the points of the calls so far, Inputs what they were told.
	Told   []string
	Inputs []hook.Input
	n      int
}

func (h *Hooks) exec(ctx context.Context, c hook.Command) (hook.Exit, error) {
	var in struct {
		Point string `json:"point"`
		hook.Input
	}
	if err := json.Unmarshal(c.Stdin, &in); err != nil {
		return hook.Exit{}, err
	}
	h.mu.Lock()
	h.Told = append(h.Told, in.Point)
	h.Inputs = append(h.Inputs, in.Input)
	h.mu.Unlock()
	out, err := h.Answer(ctx, &in.Input, in.Point)
	return hook.Exit{Stdout: []byte(out)}, err
}

// Use gives a runtime these hooks.
func (h *Hooks) Use(t *testing.T) func(*agentd.Options) {
	return func(o *agentd.Options) {
		var list []hook.Hook
		for _, p := range h.Points {
			list = append(list, hook.Hook{Name: "test_" + string(p), Point: p, Command: []string{"test"}})
		}
		r, err := hook.New(hook.Options{Hooks: list, Exec: h.exec, NewID: func() string {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.n++
			return fmt.Sprintf("hook_%d", h.n)
		}})
		if err != nil {
			t.Fatal(err)
		}
		o.Loop.Hooks = r
	}
}

// Count returns how often the hooks of a point were called.
func (h *Hooks) Count(point hook.Point) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, p := range h.Told {
		if p == string(point) {
			n++
		}
	}
	return n
}

// AlwaysAnswer is the answer function of hooks that all say the same.
func AlwaysAnswer(answer string) func(context.Context, *hook.Input, string) (string, error) {
	return func(context.Context, *hook.Input, string) (string, error) { return answer, nil }
}
