package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"agentd/fault"
)

// checkEmpty refuses an id, a choice or an idempotency key that is there and empty. In a
// struct it would look like one that is absent, and an absent session means a new one, an
// absent key a retry that isn't safe: a caller whose variable is empty should hear of it.
func checkEmpty(p Params, body []byte) error {
	if !bytes.Contains(body, []byte(`""`)) {
		return nil
	}
	if bad := rulesOf(reflect.TypeOf(p).Elem()).empty(body); bad != nil {
		return fault.Param(bad.path, "%s", bad.reason)
	}
	return nil
}

// empty looks for empty ids and choices in an object that was decoded already.
func (rs *rules) empty(object []byte) *misfit {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil // a short form, or null
	}
	for i := range rs.fields {
		r := &rs.fields[i]
		if r.embedded {
			if m := r.inner.empty(object); m != nil {
				return m
			}
			continue
		}
		if m := r.emptyValue(members[r.name]); m != nil {
			return m.inField(r.name)
		}
	}
	return nil
}

func (r *rule) emptyValue(value []byte) *misfit {
	switch {
	case len(value) == 0:
		return nil
	case (r.id || len(r.enum) > 0 || r.name == "idempotencyKey") && string(value) == `""`:
		return bad("is empty")
	case r.inner != nil && value[0] == '{':
		return r.inner.empty(value)
	case r.inner != nil && value[0] == '[':
		return r.emptyElements(value)
	}
	return nil
}

func (r *rule) emptyElements(list []byte) *misfit {
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil {
		return nil
	}
	for i, e := range elements {
		if m := r.emptyValue(e); m != nil {
			return m.inField(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}
