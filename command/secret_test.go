package command

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentd/event"
)

// planted is what the redactor of the test takes for a secret; it is also a valid id.
const planted = "planted-secret-0123"

var testRedactor = Redactor{
	Text: func(s string) string { return strings.ReplaceAll(s, planted, "[redacted]") },
	JSON: func(r event.Raw) event.Raw {
		if !strings.Contains(string(r), planted) {
			return r
		}
		return event.Raw(strings.ReplaceAll(string(r), planted, "[redacted]"))
	},
}

// plant visits every place in a value that can hold text, and has visit called with the
// text in it. Containers that are empty get one element.
func plant(v reflect.Value, path string, tag reflect.StructTag, visit func(path string, tag reflect.StructTag)) {
	switch {
	case v.Type() == rawType:
		old := slices.Clone(v.Bytes())
		v.SetBytes([]byte(`{"a":["` + planted + `"]}`))
		visit(path, tag)
		v.SetBytes(old)
	case v.Kind() == reflect.String:
		old := v.String()
		v.SetString(planted)
		visit(path, tag)
		v.SetString(old)
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			defer v.SetZero()
		}
		plant(v.Elem(), path, tag, visit)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		if v.Len() == 0 {
			old := reflect.New(v.Type()).Elem()
			old.Set(v)
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			defer v.Set(old)
		}
		plant(v.Index(0), path+"[0]", tag, visit)
	case v.Kind() == reflect.Struct && v.Type() != timeType:
		for sf := range v.Type().Fields() {
			if sf.IsExported() {
				plant(v.FieldByIndex(sf.Index), path+"."+sf.Name, sf.Tag, visit)
			}
		}
	}
}

// Whatever parameter of whatever command holds a secret, it is refused or replaced, but
// for the few that are made for secrets.
func TestEveryParameterIsRedacted(t *testing.T) {
	passed := []string{
		"list_.Page.Cursor", "get_job.Page.Cursor", "search.Page.Cursor", "get_session.Before", "read_audit.After", "resume_thread.ResumeToken", "reconnect_channel.ResumeToken",
		"set_peer_push.Sealed", "write_process_stdin.Data", "write_process_stdin.Base64",
	}
	places := 0
	for _, d := range Catalog() {
		p := d.New()
		if err := json.Unmarshal([]byte(d.Example), p); err != nil {
			t.Fatal(err)
		}
		if clean, err := Redact(p, testRedactor); err != nil || clean != p {
			t.Errorf("%s without a secret: %v, %v", d.Name, clean, err)
		}
		plant(reflect.ValueOf(p).Elem(), string(d.Name), "", func(path string, tag reflect.StructTag) {
			places++
			clean, err := Redact(p, testRedactor)
			if err != nil {
				if strings.Contains(err.Error(), planted) && tag.Get("secret") != "" {
					t.Errorf("%s: the error repeats the secret: %v", path, err)
				}
				return
			}
			b, err := json.Marshal(clean)
			if err != nil {
				return // what can't be written can't be stored
			}
			held := strings.Contains(string(b), planted)
			listed := slices.ContainsFunc(passed, func(name string) bool {
				return path == name || strings.HasPrefix(name, "list_.") && strings.HasPrefix(path, "list_") && strings.HasSuffix(path, name[len("list_"):])
			})
			if held && !listed && tag.Get("enum") == "" {
				t.Errorf("%s goes through", path)
			}
			if before, err := json.Marshal(p); err != nil || !strings.Contains(string(before), planted) {
				t.Errorf("%s: the caller's own parameters were changed", path)
			}
		})
	}
	if places < 400 {
		t.Errorf("only %d places were tried", places)
	}
}
