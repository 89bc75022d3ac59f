package repotest

import (
	"strings"
	"testing"
	"testing/fstest"
)

// tree makes a file system of names and contents.
func tree(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// expect compares findings with what each of them must contain, in order.
func expect(t *testing.T, found []string, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("found %d, want %d:\n%s", len(found), len(want), strings.Join(found, "\n"))
	}
	for i, w := range want {
		if !strings.Contains(found[i], w) {
			t.Errorf("finding %d is %q, want it to say %q", i, found[i], w)
		}
	}
}

var smallTable = []row{
	{dir: "base", standardOnly: true},
	{dir: "fold", may: []string{"base"}, standardOnly: true, pure: true},
	{dir: "engine", role: adapter, may: []string{"base"}},
	{dir: "help", role: support},
	{dir: "cmd/x", role: program},
	{dir: "top", may: []string{"fold", "base"}, pureFiles: []string{"next.go"}},
}

func TestImportsRule(t *testing.T) {
	for _, tc := range []struct {
		name, file, code string
		want             []string
	}{
		{"allowed", "top/a.go", `import ("os"; "agentd/base"; "agentd/fold"; "example.org/lib")`, nil},
		{"upwards", "base/a.go", `import "agentd/top"`, []string{"base imports agentd/top: the table doesn't allow it"}},
		{"no row", "new/a.go", ``, []string{"new: the package is not in the import table"}},
		{"a module where only the standard library may be", "base/a.go", `import "example.org/lib"`, []string{"standard library only"}},
		{"adapter in product code", "top/a.go", `import "agentd/engine"`, []string{"an adapter is imported by programs and tests only"}},
		{"adapter in a program", "cmd/x/a.go", `import "agentd/engine"`, nil},
		{"adapter in a test", "top/a_test.go", `import "agentd/engine"`, nil},
		{"adapter in test support", "help/a.go", `import "agentd/engine"`, nil},
		{"test support in product code", "top/a.go", `import "agentd/help"`, []string{"that package is for tests"}},
		{"test support in a program", "cmd/x/a.go", `import "agentd/help"`, []string{"that package is for tests"}},
		{"a program as a library", "top/a.go", `import "agentd/cmd/x"`, []string{"a program is not imported"}},
		{"hidden by a build constraint", "base/a_plan9.go", `import "agentd/top"`, []string{"the table doesn't allow it"}},
		{"impure import", "fold/a.go", `import "net/http"`, []string{"pure code does without the network"}},
		{"context in a pure package", "fold/a.go", `import "context"`, []string{"cancellation"}},
		{"clock", "fold/a.go", "import clock \"time\"\nvar now = clock.Now()", []string{"time.Now in pure code"}},
		{"durations are no clock", "fold/a.go", "import \"time\"\nconst d = time.Second", nil},
		{"goroutine", "fold/a.go", "func f() { go f() }", []string{"a goroutine in pure code"}},
		{"clock in a pure file", "top/next.go", "import \"time\"\nvar now = time.Now()", []string{"time.Now in pure code"}},
		{"clock in the file beside it", "top/other.go", "import \"time\"\nvar now = time.Now()", nil},
		{"clock in a test of a pure package", "fold/a_test.go", "import \"time\"\nvar now = time.Now()", nil},
		{"another module below", "tools/a.go", `import "agentd/engine"`, nil},
		{"testdata", "top/testdata/a.go", `import "agentd/engine"`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := tree(map[string]string{tc.file: "package p\n" + tc.code + "\n", "tools/go.mod": "module tools\n"})
			expect(t, checkImports(packagesOf(t, fsys), smallTable), tc.want...)
		})
	}
}

func TestTableRule(t *testing.T) {
	expect(t, checkTable(smallTable))
	expect(t, checkTable([]row{
		{dir: "a", may: []string{"b", "gone", "engine"}},
		{dir: "b", may: []string{"c"}},
		{dir: "c", may: []string{"a"}},
		{dir: "engine", role: adapter},
		{dir: "engine", role: adapter},
	}),
		"engine: two rows",
		"a may import b and the other way round",
		"a may import gone, which has no row",
		"a may import engine, which is not product code",
		"b may import c and the other way round",
		"c may import a and the other way round",
	)
}

func TestPackageCommentsRule(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"one", map[string]string{"p/doc.go": "// Package p does.\npackage p\n", "p/a.go": "package p\n"}, nil},
		{"none", map[string]string{"p/a.go": "package p\n"}, []string{"p: no package comment"}},
		{"detached", map[string]string{"p/a.go": "// Package p does.\n\npackage p\n"}, []string{"p: no package comment"}},
		{"a directive is no comment", map[string]string{"p/a.go": "//go:build linux\n\npackage p\n"}, []string{"p: no package comment"}},
		{"two", map[string]string{"p/a.go": "// Package p a.\npackage p\n", "p/b.go": "// Package p b.\npackage p\n"}, []string{"p: 2 package comments, in p/a.go and p/b.go"}},
		{"in a test", map[string]string{"p/a.go": "// Package p does.\npackage p\n", "p/a_test.go": "// Package p tests.\npackage p\n"}, []string{"p/a_test.go: a package comment in a test file"}},
		{"wrong name", map[string]string{"p/a.go": "// Package q does.\npackage p\n"}, []string{`doesn't begin with "Package p"`}},
		{"a program says what it is", map[string]string{"p/a.go": "// Agentd runs.\npackage main\n"}, nil},
		{"tests alone", map[string]string{"p/a_test.go": "package p\n"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect(t, checkPackageComments(packagesOf(t, tree(tc.files))), tc.want...)
		})
	}
}

func TestTextRule(t *testing.T) {
	remind := "TO" + "DO"
	for _, tc := range []struct{ name, text, want string }{
		{"clean", "see agentd/work/doc.go and ../work/x and network/root/", ""},
		{"machine path", "cd /wor" + "k/main", "a path of one machine"},
		{"quoted machine path", `dir := "/roo` + `t/go"`, "a path of one machine"},
		{"somebody's home", "/hom" + "e/anna/src", "a path of one machine"},
		{"registry", "GOPROXY=https://prox" + "y.golang.org", "the host of a package registry"},
		{"reminder", "// " + remind + ": later", "a reminder without an owner"},
		{"reminder at the end", "// " + remind, "a reminder without an owner"},
		{"reminder with an owner", "// " + remind + "(store): later", ""},
		{"merge", "<<<<" + "<<< ours", "an unresolved merge"},
		{"binary", "\x00 /wor" + "k/main", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := checkText(tree(map[string]string{"f": tc.text + "\n"}), []string{"f"}, textRules)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				expect(t, found)
				return
			}
			expect(t, found, "f:1: "+tc.want)
		})
	}
}

func TestFileLengthRule(t *testing.T) {
	long := strings.Repeat("//\n", 10)
	names := []string{"long.go", "gen.go", "short.go", "long.md"}
	found, err := checkLength(tree(map[string]string{
		"long.go":  long,
		"gen.go":   "// Code generated by x. DO NOT EDIT.\n" + long,
		"short.go": "package p\n",
		"long.md":  long,
	}), names, 10)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, found, "long.go: 10 lines")
}

func TestRuleForLongTests(t *testing.T) {
	// Indented so that test-plain.sh doesn't find them here.
	code := `package p

import "os"

	func TestLongGood() { os.Getenv("AGENTD_TEST_LONG") }
	func TestLongBad()  {}
func TestHidden()   { os.Getenv("AGENTD_TEST_LONG") }
func TestPlain()    {}
`
	expect(t, checkLongTests(packagesOf(t, tree(map[string]string{"p/a_test.go": code}))),
		"TestLongBad doesn't look at AGENTD_TEST_LONG",
		"TestHidden looks at AGENTD_TEST_LONG, so its name must begin with TestLong")
}

func TestRuleForEnums(t *testing.T) {
	code := "package event\n\ntype t struct {\n\tA string `enum:\"x y\"`\n\tB string `enum:\"x y\"`\n\tC string `enum:\"@z\"`\n\tD string `enum:\"@z\"`\n\tE string `enum:\"one\"`\n\tF string `enum:\"one\"`\n}\n"
	expect(t, checkEnums(packagesOf(t, tree(map[string]string{"event/a.go": code}))), `the enumeration "x y" is written out 2 times`)
}

func TestNamesRule(t *testing.T) {
	var large strings.Builder
	for name := range strings.SplitSeq("abcdefghij", "") {
		large.WriteString("func (l *large) " + name + "() {}\n")
	}
	pkgs, err := loadPackages(tree(map[string]string{
		"go.mod": "module agentd\n",
		"p/a.go": "package p\nfunc take() {}\nfunc add() {}\nfunc addLink() {}\nfunc (c *counter) add() {}\nfunc (c *counter) note() {}\n" +
			"func (l *large) put() {}\nfunc (s set[K]) has() {}\n" + large.String(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, checkNames(pkgs), "the name take says", "the name add says", "the name counter.note says", "the name large.put says")
}

func TestRuleForToolNames(t *testing.T) {
	code := "package p\n\ntype t struct {\n\tA string `json:\"shell\"`\n}\n\nvar shell = name == \"shell\"\n\nvar words = \"the shell\"\n"
	found := checkToolNames(packagesOf(t, tree(map[string]string{
		"top/a.go": code, "cmd/x/a.go": code, "top/a_test.go": code, "help/a.go": code, "tool/toolkind/a.go": code,
	})), smallTable)
	expect(t, found, "cmd/x/a.go:7:21: the name of the tool shell", "top/a.go:7:21: the name of the tool shell")
}

func TestRuleForWholeFacts(t *testing.T) {
	code := "package p\n\nfunc f() {\n\tevent.Decode(d)\n\te.DecodePayload(p)\n\tjson.Decode(d)\n\tstore.DecodeFact(d)\n}\n"
	found := checkWholeFacts(packagesOf(t, tree(map[string]string{
		"loop/a.go": code, "loop/b.go": code, "loop/a_test.go": code, "server/a.go": code,
	})), []string{"loop"}, map[string]string{"loop/b.go": "why", "loop/c.go": "why"})
	expect(t, found, "loop/a.go:4:2: decodes what", "loop/a.go:5:2: decodes what", "loop/c.go: is exempt")
}
