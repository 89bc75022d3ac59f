package loop_test

import (
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/internal/runtimetest"
	"agentd/model"
)

// TestModelsAreListed as the configuration has them, without keys.
func TestModelsAreListed(t *testing.T) {
	k := runtimetest.NewWith(t, func(o *agentd.Options) {
		o.Loop.Models = append(o.Loop.Models,
			model.Info{Provider: "script", Model: "cheap", Capabilities: []string{"tools"}, ContextWindow: 1000, Price: &model.Price{Rates: model.Rates{InputPerMTok: 1, OutputPerMTok: 2}}},
			model.Info{Provider: "script", Model: "dear", ContextWindow: 500, Price: &model.Price{Rates: model.Rates{InputPerMTok: 10, OutputPerMTok: 20}}, NeedsCredential: true, CredentialHint: "set KEY"})
		o.Loop.Fallback = []string{"script/dear"}
	})
	for _, c := range []struct {
		p    command.ListModels
		want string
	}{
		{command.ListModels{}, "script/cheap script/dear script/test"},
		{command.ListModels{Order: "desc"}, "script/test script/dear script/cheap"},
		{command.ListModels{Sort: "price"}, "script/dear script/cheap script/test"},
		{command.ListModels{Sort: "context", Query: "EA"}, "script/cheap script/dear"},
		{command.ListModels{Status: "no_credential"}, "script/dear"},
		{command.ListModels{Provider: "none"}, ""},
	} {
		var ids []string
		for p := c.p; ; {
			p.Limit = 1
			res := runtimetest.Do[command.ListModelsResult](k, &p)
			for _, m := range res.Models {
				ids = append(ids, m.ModelID)
				if m.Default != (m.Model == "test") || (m.FallbackRank == 1) != (m.Model == "dear") || (m.CredentialHint != "") != (m.Model == "dear") {
					t.Errorf("%+v", m)
				}
			}
			if res.Total != int64(len(strings.Fields(c.want))) {
				t.Errorf("%+v: total %d", c.p, res.Total)
			}
			if p.Cursor = res.NextCursor; p.Cursor == "" {
				break
			}
		}
		if strings.Join(ids, " ") != c.want {
			t.Errorf("%+v: %v; want %s", c.p, ids, c.want)
		}
	}
}
