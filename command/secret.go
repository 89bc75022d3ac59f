package command

import (
	"encoding/json"
	"fmt"
	"reflect"

	"agentd/event"
	"agentd/fault"
)

// What the tag "secret" of a parameter says about a secret in it. Without the tag the
// secret is replaced: most parameters are stored, and shown to others.
const (
	// refuseSecret is for what is looked up or compared, and means nothing if changed.
	// Ids are refused without the tag.
	refuseSecret = "refuse"
	// passSecret is for what is made to hold a secret, and is not stored.
	passSecret = "pass"
)

// Redactor takes secrets out. Text without secrets comes back as it is.
type Redactor struct {
	Text func(string) string
	JSON func(event.Raw) event.Raw
}

// Redact returns the parameters without secrets: the same ones if they hold none, as
// almost always, else a copy. A secret in an id, or in anything else that can't be
// changed without changing what is asked for, is a fault; the fault doesn't repeat it.
func Redact(p Params, r Redactor) (Params, error) {
	v := reflect.ValueOf(p).Elem()
	w := redacting{Redactor: r}
	if m := w.fields(rulesOf(v.Type()), v); m != nil {
		return nil, fault.Param(m.path, "%s", m.reason)
	}
	if !w.found {
		return p, nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("command: %s: %w", p.Command(), err)
	}
	clean, ok := reflect.TypeAssert[Params](reflect.New(v.Type()))
	if !ok {
		return nil, fmt.Errorf("command: %s can't be copied", p.Command())
	}
	if err := json.Unmarshal(b, clean); err != nil {
		return nil, fmt.Errorf("command: %s: %w", p.Command(), err)
	}
	w.change = true
	w.fields(rulesOf(v.Type()), reflect.ValueOf(clean).Elem())
	return clean, clean.Validate()
}

// redacting is one pass over parameters.
type redacting struct {
	Redactor
	// change replaces what is found; without it, finding is all.
	change, found bool
}

func (w *redacting) fields(rs *rules, v reflect.Value) *misfit {
	for i := range rs.fields {
		r := &rs.fields[i]
		if r.secret == passSecret || len(r.enum) > 0 {
			continue
		}
		m := w.value(r, v.Field(r.index))
		if m != nil && !r.embedded {
			m = m.inField(r.name)
		}
		if m != nil {
			return m
		}
	}
	return nil
}

func (w *redacting) value(r *rule, v reflect.Value) *misfit {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return w.value(r, v.Elem())
	case reflect.String:
		return w.text(r, v)
	case reflect.Slice:
		if v.Type() == rawType {
			w.raw(v)
			return nil
		}
		return w.elements(r, v)
	case reflect.Map:
		return w.entries(v)
	case reflect.Struct:
		if r.inner != nil {
			return w.fields(r.inner, v)
		}
	default:
	}
	return nil
}

func (w *redacting) elements(r *rule, v reflect.Value) *misfit {
	for i := range v.Len() {
		if m := w.value(r, v.Index(i)); m != nil {
			return m.inField(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

func (w *redacting) text(r *rule, v reflect.Value) *misfit {
	s := v.String()
	if s == "" {
		return nil
	}
	clean := w.Text(s)
	if clean == s {
		return nil
	}
	if r.id || r.secret == refuseSecret {
		return bad("looks like a secret, and would be stored and shown to others; choose another text")
	}
	w.found = true
	if w.change {
		v.SetString(clean)
	}
	return nil
}

func (w *redacting) raw(v reflect.Value) {
	raw := event.Raw(v.Bytes())
	if len(raw) == 0 {
		return
	}
	clean := w.JSON(raw)
	if len(clean) == len(raw) && &clean[0] == &raw[0] {
		return
	}
	w.found = true
	if w.change {
		v.SetBytes(clean)
	}
}

// entries refuses secrets in the names of a map: they name counters, which can't be
// renamed.
func (w *redacting) entries(v reflect.Value) *misfit {
	for it := v.MapRange(); it.Next(); {
		if name := it.Key().String(); w.Text(name) != name {
			return bad("has a name that looks like a secret, and would be stored and shown to others; choose another text")
		}
	}
	return nil
}
