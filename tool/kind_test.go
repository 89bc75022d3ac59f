package tool

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"agentd/tool/toolkind"
)

// Names of the built-in tools, as models call them.
const (
	ReadFile     = string(toolkind.ReadFile)
	WriteFile    = string(toolkind.WriteFile)
	EditFile     = string(toolkind.EditFile)
	ListFiles    = string(toolkind.ListFiles)
	SearchFiles  = string(toolkind.SearchFiles)
	Shell        = string(toolkind.Shell)
	UpdatePlan   = string(toolkind.UpdatePlan)
	RequestInput = string(toolkind.RequestInput)
	SpawnAgent   = string(toolkind.SpawnAgent)
	PresentPlan  = string(toolkind.PresentPlan)
)

func TestEveryBuiltinToolHasAKind(t *testing.T) {
	var kinds []toolkind.Kind
	for _, b := range Builtins(nil) {
		kinds = append(kinds, toolkind.Of(b.Info().ToolName))
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, toolkind.Builtin()) {
		t.Errorf("the built-in tools are %q, the catalogue has %q", kinds, toolkind.Builtin())
	}
}

// What the catalogue says of a tool is what the tool says of itself.
func TestKindsAgreeWithDescriptions(t *testing.T) {
	taken := map[string]bool{}
	for _, b := range Builtins(nil) {
		info := b.Info()
		kind := toolkind.Of(info.ToolName)
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(info.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		for name := range schema.Properties {
			taken[name] = true
		}
		if _, takesPath := schema.Properties["path"]; takesPath != (kind.Access() != toolkind.NoFile) {
			t.Errorf("%s takes a path: %v, but its access is %v", kind, takesPath, kind.Access())
		}
		writes := kind != toolkind.Shell && slices.Contains(info.Capabilities, CapFilesWrite)
		if writes != (kind.Access() == toolkind.WritesFile) {
			t.Errorf("%s has the capabilities %q, but its access is %v", kind, info.Capabilities, kind.Access())
		}
	}
	for field := range reflect.TypeFor[toolkind.Arguments]().Fields() {
		if name := field.Tag.Get("json"); !taken[name] {
			t.Errorf("no built-in tool takes the argument %q", name)
		}
	}
}
