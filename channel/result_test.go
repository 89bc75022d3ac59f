package channel_test

import (
	"errors"
	"testing"

	"agentd/channel"
)

func TestResultOf(t *testing.T) {
	type whole struct {
		ID   string `json:"id"`
		Last uint64 `json:"last"`
	}
	type part struct {
		ID string `json:"id"`
	}
	res := &whole{"x", 3}
	if got, err := channel.ResultOf[whole](res, nil); got != res || err != nil {
		t.Errorf("its own type: %v, %v", got, err)
	}
	if got, err := channel.ResultOf[part](res, nil); err != nil || got.ID != "x" {
		t.Errorf("a part: %v, %v", got, err)
	}
	if got, err := channel.ResultOf[[]string](res, nil); err == nil {
		t.Errorf("another shape: %v", got)
	}
	refused := errors.New("refused")
	if got, err := channel.ResultOf[part](nil, refused); got != nil || !errors.Is(err, refused) {
		t.Errorf("an error: %v, %v", got, err)
	}
}
