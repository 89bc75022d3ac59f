package command

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"agentd/fault"
)

// One of several fails as the command for one does: with the same code, the same words and
// the same time to wait. What has no kind says nothing of what is inside.
func TestPartsFailAsSingleCommandsDo(t *testing.T) {
	for _, d := range fault.Table() {
		err := fmt.Errorf("outer: %w", &fault.Error{Kind: d.Kind, Detail: "not now", RetryAfter: 1200 * time.Millisecond, Err: errors.New("a cause")})
		if got := BulkErrorOf(err); *got != (BulkError{Code: string(d.Kind), Detail: "not now", RetryAfter: 2}) {
			t.Errorf("%s became %+v", d.Kind, got)
		}
	}
	if got := BulkErrorOf(fault.New(fault.Conflict, "taken")); got.RetryAfter != 0 {
		t.Errorf("a conflict became %+v", got)
	}
	if got := BulkErrorOf(errors.New("a cause")); got.Code != string(fault.Internal) || got.Detail == "a cause" {
		t.Errorf("an error without a kind became %+v", got)
	}
	if BulkErrorOf(nil) != nil {
		t.Error("no error became one")
	}
}
