package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"agentd/event"
)

// toolSchema compiles the schema of a built-in tool.
func toolSchema(t testing.TB, name string) *Schema {
	t.Helper()
	for _, tl := range Builtins(nil) {
		if tl.Info().ToolName == name {
			s, err := CompileSchema(tl.Info().InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	t.Fatalf("no tool %s", name)
	return nil
}

func TestValidateTellsWhatToDo(t *testing.T) {
	for _, c := range []struct {
		tool, input string
		words       []string // none: valid
	}{
		{ReadFile, `{"path":"a"}`, nil},
		{ReadFile, ` { "path" : "a\nb" , "offset" : 0 } `, nil},
		{ReadFile, `{"path":"a","offset":1e2}`, nil},
		{ReadFile, `{"path":"a","offset":3.0}`, nil},
		{ReadFile, `{"path":"\u00e4"}`, nil},
		{ReadFile, `{"pth":"a"}`, []string{`pth: is not a known property; did you mean "path"?`, "path: is missing (string: The file", "Known properties: limit, offset, path."}},
		{ReadFile, `{}`, []string{"path: is missing"}},
		{ReadFile, `{"path":1}`, []string{"path: expected string, given 1"}},
		{ReadFile, `{"path":null}`, []string{"path: expected string, given null"}},
		{ReadFile, `{"path":["a"]}`, []string{"path: expected string, given an array of 1 item"}},
		{ReadFile, `{"path":{"a":1,"b":2}}`, []string{"given an object with 2 properties"}},
		{ReadFile, `{"path":""}`, []string{"path: expected at least 1 character"}},
		{ReadFile, `{"path":"a","offset":"ten"}`, []string{`offset: expected integer, given the string "ten"`}},
		{ReadFile, `{"path":"a","offset":1.5}`, []string{"offset: expected integer, given 1.5"}},
		{ReadFile, `{"path":"a","offset":-1}`, []string{"offset: expected a number not below 0, given -1"}},
		{ReadFile, `{"path":"a","limit":0}`, []string{"limit: expected a number not below 1"}},
		{ReadFile, `{"path":"a","path":"../b"}`, []string{"duplicate", "path"}},
		{ReadFile, `{"path":"a","PATH":"b"}`, []string{"PATH: is not a known property"}},
		{ReadFile, `{"path":"a"`, []string{"not valid JSON", "ends in the middle"}},
		{ReadFile, `{"path":"a"} x`, []string{"not valid JSON", "after the end"}},
		{ReadFile, `{"path":"a",}`, []string{"not valid JSON"}},
		{ReadFile, `{"path":"a" "limit":1}`, []string{"not valid JSON"}},
		{ReadFile, `{,"path":"a"}`, []string{"not valid JSON"}},
		{ReadFile, `{"path":"a","limit":01}`, []string{"not valid JSON"}},
		{ReadFile, `{"path":"a","limit":- 1}`, []string{"not valid JSON"}},
		{ReadFile, "{\"path\":\"a\nb\"}", []string{"not valid JSON"}},
		{ReadFile, "{\"path\":\"\xff\"}", []string{"not valid JSON", "UTF-8"}},
		{ReadFile, `{"path":"\ud800"}`, []string{"not valid JSON"}},
		{ReadFile, `{"path":"a","limit":1e999999999}`, []string{"too large"}},
		{ReadFile, ``, []string{"not valid JSON"}},
		{ReadFile, `[]`, []string{"the value: expected object, given an array of 0 items"}},
		{ReadFile, `"a"`, []string{"expected object"}},
		{Shell, `{"command":"ls","background":"yes"}`, []string{`background: expected boolean, given the string "yes"`}},
		{Shell, `{"command":"ls","timeout":5}`, []string{`did you mean "timeoutMs"`}},
		{Shell, `{"command":"ls","timeoutMs":864000000}`, []string{"not above 86400000"}},
		{UpdatePlan, `{"items":[{"step":"a","status":"done"}]}`, []string{`items[0].status: expected one of "pending", "in_progress", "completed", "cancelled", given the string "done"`}},
		{UpdatePlan, `{"items":["a",{"step":"b"},{"title":"c","status":"pending"}]}`, nil},
		{UpdatePlan, `{"items":[7]}`, []string{"items[0]"}},
		{UpdatePlan, `{"items":{"step":"a"}}`, []string{"items: expected array, given an object"}},
		{RequestInput, `{"prompt":"a","schema":{"type":"object"}}`, nil},
		{RequestInput, `{"prompt":"a","schema":"x"}`, []string{"schema: expected object"}},
	} {
		err := toolSchema(t, c.tool).Validate(event.Raw(c.input))
		if len(c.words) == 0 {
			if err != nil {
				t.Errorf("%s %s: %v", c.tool, c.input, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Category != InvalidInput {
			t.Errorf("%s %s: %v", c.tool, c.input, err)
			continue
		}
		requireWords(t, e.Message+" "+e.Advice, c.words...)
	}
}

func TestValidateBoundsWhatItTells(t *testing.T) {
	var items []string
	for i := range 50 {
		items = append(items, fmt.Sprintf(`{"step":%d,"status":"pending"}`, i))
	}
	err := toolSchema(t, UpdatePlan).Validate(event.Raw(`{"items":[` + strings.Join(items, ",") + `]}`))
	if err == nil || len(err.Error()) > 1000 {
		t.Fatalf("%v", err)
	}
	requireWords(t, err.Error(), "items[0].step", "(and 45 more)")
	long := strings.Repeat("x", 100_000)
	if err := toolSchema(t, ReadFile).Validate(event.Raw(`{"` + long + `":"` + long + `"}`)); err == nil || len(err.Error()) > 1000 {
		t.Errorf("a message of %d bytes", len(err.Error()))
	}
}

// TestMisfitsNameTheirPlaces in the same order every time, though members of an object have none.
func TestMisfitsNameTheirPlaces(t *testing.T) {
	schema := event.Raw(`{"type":"object","required":["z"],"properties":{"b":{"type":"string"},"a":{"type":"array","items":{"type":"integer"}},"c":{"properties":{"d":{"const":1}}}}}`)
	doc := event.Raw(`{"c":{"d":2},"b":1,"a":[0,0,"x",0,0,0,0,0,0,0,"y"]}`)
	want := []string{"z", "a[2]", "a[10]", "b", "c.d"}
	for range 20 {
		var te *Error
		if err := ValidateOutput(schema, doc); !errors.As(err, &te) {
			t.Fatal(err)
		}
		var got, said []string
		for _, m := range te.Misfits {
			got, said = append(got, m.At), append(said, m.String())
		}
		if !slices.Equal(got, want) || te.Message != strings.Join(said, "; ") {
			t.Fatalf("%v, %s", got, te.Message)
		}
	}
	var te *Error
	if err := ValidateOutput(schema, event.Raw(`3`)); !errors.As(err, &te) || len(te.Misfits) != 1 || te.Misfits[0].At != "" || te.Message != "the value: expected object, given 3" {
		t.Errorf("%+v", te)
	}
	if err := ValidateOutput(schema, event.Raw(`{`)); !errors.As(err, &te) || te.Misfits != nil {
		t.Errorf("%+v", te)
	}
}

func TestValidateOutput(t *testing.T) {
	schema := `{"type":"object","properties":{
		"when":{"type":"string","format":"date"},
		"who":{"type":"string","pattern":"^[a-z]+$"},
		"n":{"type":"integer","exclusiveMinimum":0,"multipleOf":5,"maximum":100},
		"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true,"minItems":1,"maxItems":2},
		"shape":{"oneOf":[
			{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
			{"type":"object","properties":{"kind":{"const":"square"},"side":{"type":"number"}},"required":["kind","side"]}]},
		"id":{"anyOf":[{"type":"string"},{"type":"null"}]}},
		"dependentRequired":{"n":["who"]},"maxProperties":4}`
	for doc, words := range map[string][]string{
		`{"when":"2026-01-31"}`:                     nil,
		`{"id":null}`:                               nil,
		`{"shape":{"kind":"circle","r":1}}`:         nil,
		`{"when":"31.1.2026"}`:                      {"when: expected a text in the format date", "31.1.2026"},
		`{"who":"X1"}`:                              {"who: expected a text that matches ^[a-z]+$"},
		`{"n":5}`:                                   {"with n there must be who too"},
		`{"n":0,"who":"a"}`:                         {"n: expected a number above 0"},
		`{"n":7,"who":"a"}`:                         {"n: expected a multiple of 5"},
		`{"n":105,"who":"a"}`:                       {"n: expected a number not above 100"},
		`{"tags":[]}`:                               {"tags: expected at least 1 item, given 0"},
		`{"tags":["a","b","c"]}`:                    {"tags: expected at most 2 items, given 3"},
		`{"tags":["a","a"]}`:                        {"tags: items 0 and 1 are equal"},
		`{"tags":["a",3]}`:                          {"tags[1]: expected string, given 3"},
		`{"shape":{"kind":"circle","r":"x"}}`:       {"shape.r: expected number"},
		`{"id":7}`:                                  {"id: satisfies none of the 2 alternatives; given 7"},
		`{"a":1,"b":1,"c":1,"d":1,"e":1}`:           {"expected at most 4 properties, given 5"},
		`{"shape":3}`:                               {"shape: satisfies none of the 2 alternatives"},
		`{"when":"2026-01-31"`:                      {"not valid JSON"},
		`{"when":"2026-01-31","when":"2026-01-31"}`: {"duplicate"},
		strings.Repeat("[", 500) + strings.Repeat("]", 500): {"nested more than"},
	} {
		err := ValidateOutput(event.Raw(schema), event.Raw(doc))
		if words == nil {
			if err != nil {
				t.Errorf("%s: %v", doc, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: accepted", doc)
			continue
		}
		requireWords(t, err.Error(), words...)
	}
	if err := ValidateOutput(event.Raw(`{"pattern":"(?=a)"}`), event.Raw(`"a"`)); err == nil {
		t.Error("a pattern that can't be checked was taken as satisfied")
	}
	if CheckSchema(event.Raw(`{"type":"nothing"}`)) == nil || CheckSchema(event.Raw(schema)) != nil {
		t.Error("CheckSchema")
	}
}

func TestSchemasOfStrangers(t *testing.T) {
	double := func(levels int) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
		for i := range levels {
			fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"d%d":{"type":"object"}}}`, levels)
		return b.String()
	}
	for name, c := range map[string]struct{ schema, why string }{
		"empty":            {``, "empty"},
		"no JSON":          {`{"type":`, "not valid JSON"},
		"twice":            {`{"type":"object","type":"string"}`, "not valid JSON"},
		"unknown type":     {`{"type":"objekt"}`, "can't be compiled"},
		"wrong keyword":    {`{"properties":[]}`, "can't be compiled"},
		"file":             {`{"$ref":"file:///etc/passwd"}`, "nothing is loaded"},
		"web":              {`{"$ref":"http://127.0.0.1:1/x.json"}`, "nothing is loaded"},
		"own dialect":      {`{"$schema":"https://example.com/dialect"}`, "nothing is loaded"},
		"missing":          {`{"$ref":"#/$defs/none"}`, "can't be compiled"},
		"doubles":          {double(40), "too complex"},
		"huge":             {`{"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`, "bytes long"},
		"a number":         {`7`, "can't be compiled"},
		"deep":             {strings.Repeat(`{"not":`, 1000) + "{}" + strings.Repeat("}", 1000), "nested"},
		"pattern property": {`{"type":"object","properties":{"a":{"minLength":-1}}}`, "can't be compiled"},
	} {
		if _, err := CompileSchema(event.Raw(c.schema)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ schema, good, bad string }{
		"lookahead":  {`{"type":"string","pattern":"^(?!a)"}`, `"b"`, `1`},
		"draft 7":    {`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"type":"integer"}},"$ref":"#/definitions/n"}`, `1`, `"a"`},
		"draft 4":    {`{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":1,"exclusiveMinimum":true}`, `2`, `1`},
		"recursive":  {`{"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false}`, `{"next":{"next":{}}}`, `{"next":{"x":1}}`},
		"formats":    {`{"type":"string","format":"email"}`, `"not one"`, `1`},
		"everything": {`true`, `{"a":[1]}`, ``},
		"nothing":    {`{"not":{}}`, ``, `1`},
		"id":         {`{"$id":"https://example.com/tool","type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`, `{"a":"x"}`, `{"a":1}`},
		"doubles":    {double(5), `{}`, `1`},
	} {
		s, err := CompileSchema(event.Raw(c.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.good != "" && s.Validate(event.Raw(c.good)) != nil {
			t.Errorf("%s: %s refused: %v", name, c.good, s.Validate(event.Raw(c.good)))
		}
		if c.bad != "" && s.Validate(event.Raw(c.bad)) == nil {
			t.Errorf("%s: %s accepted", name, c.bad)
		}
	}
}

// What the fast path accepts the full validator accepts too.
func TestFastPathAgrees(t *testing.T) {
	var schemas []*Schema
	for _, tl := range Builtins(nil) {
		s := toolSchema(t, tl.Info().ToolName)
		if s.fast == nil && tl.Info().ToolName != UpdatePlan {
			t.Errorf("%s has no fast path", tl.Info().ToolName)
		}
		schemas = append(schemas, s)
	}
	enum, err := CompileSchema(event.Raw(`{"type":"object","properties":{"path":{"type":"string","enum":["a","b"],"maxLength":3},"limit":{"type":"integer","maximum":5}}}`))
	if err != nil || enum.fast == nil {
		t.Fatal(err)
	}
	schemas = append(schemas, enum)
	if !enum.fast.accepts([]byte(`{"path":"a","limit":5}`)) {
		t.Error("the fast path is not taken")
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(schemas).Draw(rt, "schema")
		doc := rapid.OneOf(rapid.Custom(drawInput), rapid.StringMatching(`[{}":,a-c\\n0-9. +-]{0,20}`)).Draw(rt, "doc")
		if s.fast == nil || !s.fast.accepts([]byte(doc)) {
			return
		}
		v, err := decodeDoc([]byte(doc))
		if err != nil {
			rt.Fatalf("%s: the fast path accepts what is no JSON: %v", doc, err)
		}
		if err := s.validate(v); err != nil {
			rt.Fatalf("%s: the fast path accepts it, but %v", doc, err)
		}
	})
}

func drawInput(rt *rapid.T) string {
	good := map[string]string{"path": `"a"`, "content": `"x\ny"`, "limit": "5", "offset": "0", "command": `"ls"`, "tty": "true", "old": `"a"`, "new": `"b"`, "all": "false", "prompt": `"?"`, "pattern": `"x"`, "role": `"r"`, "input": `"i"`, "pth": "1"}
	sets := [][]string{{"path"}, {"path", "limit"}, {"path", "content"}, {"path", "old", "new"}, {"command", "tty"}, {"pattern"}, {"role", "input"}, {"prompt"}, {}, {"path", "path"}, {"pth"}}
	value := rapid.SampledFrom([]string{`"a"`, `""`, `"a\n\"b"`, `"\u0041"`, `"\ud800"`, `1`, `-1`, `0`, `01`, `1.0`, `1e3`, `999999999999999`, `9999999999999999`, `true`, `false`, `null`, `tru`, `"ä"`, "\"\xff\"", `"abcd"`, `"\q"`, `[]`})
	blank := rapid.SampledFrom([]string{"", "", "", "", " ", "\n", "\t ", "x"})
	var b strings.Builder
	b.WriteString("{")
	for i, n := range rapid.SampledFrom(sets).Draw(rt, "names") {
		if i > 0 {
			b.WriteString(",")
		}
		v := good[n]
		if rapid.IntRange(0, 2).Draw(rt, "odd") == 0 {
			v = value.Draw(rt, "value")
		}
		fmt.Fprintf(&b, `%s"%s":%s`, blank.Draw(rt, "blank"), n, v)
	}
	b.WriteString("}" + blank.Draw(rt, "end"))
	return b.String()
}

func TestSchemasCache(t *testing.T) {
	c := NewSchemas(2)
	schema := func(i int) event.Raw { return event.Raw(fmt.Sprintf(`{"title":"%d"}`, i)) }
	a, err := c.Compile(schema(1))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Compile(schema(2))
	if again, _ := c.Compile(schema(1)); again != a {
		t.Error("compiled twice")
	}
	_, _ = c.Compile(schema(3)) // 2 was used longest ago
	if again, _ := c.Compile(schema(1)); again != a || c.Len() != 2 {
		t.Errorf("what was used last is gone, or the cache grew to %d", c.Len())
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				if _, err := c.Compile(schema(i * j % 7)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := c.Compile(event.Raw(`{`)); err == nil {
		t.Error("a broken schema compiles")
	}
	if _, err := c.Compile(event.Raw(`{`)); err == nil {
		t.Error("a broken schema compiles the second time")
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(`{"type":"object"}`, `{"a":1}`)
	f.Add(readFileSchema, `{"path":"a","offset":1}`)
	f.Add(`{"anyOf":[{"$ref":"#"}]}`, `1`)
	f.Fuzz(func(t *testing.T, schema, doc string) {
		s, err := CompileSchema(event.Raw(schema))
		if err != nil {
			return
		}
		if s.Validate(event.Raw(doc)) == nil && !json.Valid([]byte(doc)) {
			t.Errorf("%q satisfies %q, but is no JSON", doc, schema)
		}
	})
}

func BenchmarkValidateReadFile(b *testing.B) {
	s := toolSchema(b, ReadFile)
	doc := event.Raw(`{"path":"internal/server/handler.go","offset":120,"limit":80}`)
	b.Run("fast", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Validate(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("full", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, err := decodeDoc(doc)
			if err == nil {
				err = s.validate(v)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestValidationIsBounded: neither a schema that visits each level of a document more
// often than the one above it, nor a pattern, nor long lists hold the validator up,
// which can't be interrupted.
func TestValidationIsBounded(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 60) + "{}" + strings.Repeat("}", 60)
	list := "[" + strings.Repeat(`"x",`, 200_000) + `"x"]`
	text := `"` + strings.Repeat("a", 1<<20) + `"`
	again := `{"properties":{"a":{"$ref":"#/$defs/n"}}}`
	words := `["w"`
	for i := range 5000 {
		words += fmt.Sprintf(`,"w%d"`, i)
	}
	words += "]"
	for name, c := range map[string]struct{ schema, doc string }{
		"each level twice": {`{"$ref":"#/$defs/n","$defs":{"n":{"allOf":[` + again + `,` + again + `]}}}`, nested},
		"a large pattern":  {`{"pattern":"(a?){900}b"}`, text},
		"a long enum":      {`{"items":{"enum":` + words + `}}`, list},
		"many patterns":    {`{"items":{"allOf":[` + strings.Repeat(`{"pattern":"a{500}"},`, 100) + `{}]}}`, list},
	} {
		for _, check := range []func(schema, doc event.Raw) error{ValidateOutput, func(schema, doc event.Raw) error {
			s, err := CompileSchema(schema)
			if err != nil {
				return err
			}
			return s.Validate(doc)
		}} {
			if err := check(event.Raw(c.schema), event.Raw(c.doc)); err == nil || !strings.Contains(err.Error(), "take too long") {
				t.Errorf("%s: %.200v", name, err)
			}
		}
	}
	if err := ValidateOutput(event.Raw(`{"pattern":"(a{1000}b{1000}){10}"}`), event.Raw(`"a"`)); err == nil || !strings.Contains(err.Error(), "pattern") {
		t.Errorf("a pattern too large to compile: %v", err)
	}
	for _, schema := range []string{`{"$dynamicRef":"#n","$dynamicAnchor":"n"}`, `{"properties":{"a":{"$dynamicRef":"#n","$dynamicAnchor":"n"}}}`} {
		if _, err := CompileSchema(event.Raw(schema)); err == nil || !strings.Contains(err.Error(), "not supported") {
			t.Errorf("%s: %v", schema, err)
		}
	}
	if err := ValidateOutput(event.Raw(`{"type":"array","items":{"type":"string","pattern":"^x$","enum":["x"]}}`), event.Raw(list)); err != nil {
		t.Errorf("a long list and a plain schema: %v", err)
	}
}
