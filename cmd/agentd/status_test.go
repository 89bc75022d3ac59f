package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"agentd/internal/gen"
)

// TestStatusIsDescribed holds what the runtime says of itself against the OpenAPI
// document: the generator can't see it, because it is the program's.
func TestStatusIsDescribed(t *testing.T) {
	type schema struct{ Properties map[string]json.RawMessage }
	var doc struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(gen.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	var runtime schema
	if err := json.Unmarshal(doc.Components.Schemas["ServerStatus"].Properties["runtime"], &runtime); err != nil {
		t.Fatal(err)
	}
	fields := reflect.VisibleFields(reflect.TypeFor[runtimeStatus]())
	for _, f := range fields {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if runtime.Properties[name] == nil {
			t.Errorf("%s isn't in the document", name)
		}
		delete(runtime.Properties, name)
	}
	for name := range runtime.Properties {
		t.Errorf("%s is in the document alone", name)
	}
}
