package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"agentd/event"
	"agentd/fault"
)

// UsedRef is a reference in the parameters of a command whose content goes to a model.
type UsedRef struct {
	// Param is where it stands, such as input[1].ref.
	Param string
	// Ref is the reference.
	Ref string
}

// UsedRefs returns the references in all inputs of a command: in every parameter, at
// any depth, that is a list of parts (the tag as:"input"). What is behind them goes to a
// model, so the caller must be allowed to read it. The parameters must be valid.
func UsedRefs(p Params) ([]UsedRef, error) {
	v := reflect.ValueOf(p).Elem()
	if rs := rulesOf(v.Type()); rs.hasInput() {
		return rs.usedRefs(nil, "", v)
	}
	return nil, nil
}

// hasInput reports whether a parameter of the struct, or of one within it, is an input.
func (rs *rules) hasInput() bool {
	for i := range rs.fields {
		if r := &rs.fields[i]; r.input || (r.inner != nil && r.inner.hasInput()) {
			return true
		}
	}
	return false
}

func (rs *rules) usedRefs(out []UsedRef, path string, v reflect.Value) ([]UsedRef, error) {
	var err error
	for i := range rs.fields {
		r := &rs.fields[i]
		at := path + r.name
		if r.embedded {
			at = path
		}
		switch f := v.Field(r.index); {
		case r.input:
			out, err = partRefs(out, at, event.Raw(f.Bytes()))
		case r.inner != nil:
			out, err = r.innerRefs(out, at, f)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// innerRefs looks into the struct, or the structs, that a parameter holds.
func (r *rule) innerRefs(out []UsedRef, at string, v reflect.Value) ([]UsedRef, error) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return out, nil
		}
		return r.innerRefs(out, at, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			var err error
			if out, err = r.innerRefs(out, fmt.Sprintf("%s[%d]", at, i), v.Index(i)); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		if at != "" {
			at += "."
		}
		return r.inner.usedRefs(out, at, v)
	}
}

func partRefs(out []UsedRef, at string, input event.Raw) ([]UsedRef, error) {
	if !bytes.Contains(input, []byte(`"ref"`)) || input[0] != '[' {
		return out, nil // a validated input has its names as encoding/json writes them
	}
	var parts []Part
	if err := json.Unmarshal(input, &parts); err != nil {
		return nil, fault.Param(at, "is not a list of parts")
	}
	for i, p := range parts {
		if p.Ref != "" {
			out = append(out, UsedRef{Param: fmt.Sprintf("%s[%d].ref", at, i), Ref: p.Ref})
		}
	}
	return out, nil
}
