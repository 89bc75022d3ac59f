package channel

import (
	"encoding/json"
	"fmt"
)

// ResultOf reads the result of a command into R, the command's own result type or one
// with a part of its members: ResultOf[T](rt.Do(ctx, caller, params)).
func ResultOf[R any](result any, err error) (*R, error) {
	if err != nil {
		return nil, err
	}
	if typed, ok := result.(*R); ok {
		return typed, nil
	}
	b, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("channel: encode %T: %w", result, err)
	}
	out := new(R)
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("channel: read %T as %T: %w", result, out, err)
	}
	return out, nil
}
