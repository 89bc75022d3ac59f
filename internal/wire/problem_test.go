package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/fault"
)

func TestProblemsKeepEveryKind(t *testing.T) {
	for _, d := range fault.Table() {
		sent := &fault.Error{Kind: d.Kind, Detail: "detail", Param: "a.b", Fields: []fault.Field{{Param: "a.b", Detail: "is missing"}}, RetryAfter: 1500 * time.Millisecond, Err: errors.New("secret cause")}
		p := ProblemOf(fmt.Errorf("outer: %w", sent))
		if p.Status != d.HTTP || p.Title != d.Title || p.Code != string(d.Kind) || p.RetryAfter != 2 {
			t.Errorf("%s: %+v", d.Kind, p)
		}
		b, err := json.Marshal(p)
		if err != nil || strings.Contains(string(b), "secret") {
			t.Fatalf("%s, %v", b, err)
		}
		back, ok := DecodeProblem(b)
		if got := back.Err(); !ok || got.Kind != d.Kind || got.Detail != "detail" || got.Param != "a.b" || !slices.Equal(got.Fields, sent.Fields) || got.RetryAfter != 2*time.Second {
			t.Errorf("%s came back as %+v", d.Kind, got)
		}
	}
}

func TestAnUnclassifiedErrorStaysInside(t *testing.T) {
	p := ProblemOf(errors.New("open /secret: permission denied"))
	if p.Status != 500 || p.Code != "internal" || strings.Contains(p.Detail, "secret") {
		t.Errorf("got %+v", p)
	}
}

func TestWhatIsNoProblem(t *testing.T) {
	for _, body := range []string{"", "{}", "[]", "<html>", `{"title":"x"}`, `{"code":5}`} {
		if p, ok := DecodeProblem([]byte(body)); ok {
			t.Errorf("%q is %+v", body, p)
		}
	}
	if err := (&Problem{Title: "only a title", Code: "conflict"}).Err(); err.Detail != "only a title" {
		t.Errorf("got %v", err)
	}
}
