package stage

import (
	"bytes"
	"reflect"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// confinedBy is a spec with something of everything, confined in a workspace of its own.
func confinedBy(workspace string) Spec {
	return Spec{
		MountNS: true, PidNS: true, NetNS: true, ReadOnly: true, Dev: true, Proc: true, PidMax: 301, Loopback: true, ProxyPort: 3128,
		Keep: []Tree{{File: File{Path: workspace, Dev: 1, Ino: 2}}}, Private: []string{"/tmp"}, PrivateBytes: 1 << 20,
		Pinned: []string{workspace + "/a"}, Protected: []string{workspace + "/a/b"}, Hidden: []File{{Path: "/secret", Dev: 1, Ino: 3}, {Path: "/none"}},
		Limits: []Limit{{Resource: syscall.RLIMIT_CORE}}, OpenFiles: [2]uint64{1024, 4096}, Tasks: 1, NoNewPrivs: true, DropCaps: true,
		LandlockFS: rightReadFile, Rules: []Rule{{Path: "/", Access: rightReadFile}}, Seccomp: make([]byte, 5*filterSize),
	}
}

// runs are specs that differ in the command alone.
func runs(s Spec) (out []Spec) {
	for _, c := range []Spec{
		{Path: "/bin/true", Argv: []string{"true"}},
		{Path: "/bin/sh", Argv: []string{"sh", "-c", "a longer line"}, Env: []string{"A=b", "C=d"}, Dir: "/somewhere", TTY: true},
		{Path: "a zero\x00"},
	} {
		one := s
		one.Path, one.Argv, one.Env, one.Dir, one.TTY = c.Path, c.Argv, c.Env, c.Dir, c.TTY
		out = append(out, one)
	}
	return out
}

// TestAKeptConfinementIsTheSame: whatever was compiled before, by however many at once,
// each spec gets the program that it gets by itself.
func TestAKeptConfinementIsTheSame(t *testing.T) {
	var c Compiler
	var wg sync.WaitGroup
	for i := range 2 * maxConfined {
		for _, s := range runs(confinedBy("/workspace" + strconv.Itoa(i))) {
			var alone *Compiler
			want, err := alone.Compile(&s)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				wg.Go(func() {
					if got, err := c.Compile(&s); err != nil || !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
						t.Errorf("%v, and another program", err)
					}
				})
			}
		}
	}
	wg.Wait()
	if len(c.kept) > maxConfined {
		t.Errorf("%d are kept", len(c.kept))
	}
}

// TestAConfinementIsKeptByAllOfIt: a spec that differs in anything but the command gets
// another program.
func TestAConfinementIsKeptByAllOfIt(t *testing.T) {
	var c Compiler
	seen := map[string]string{}
	for name, change := range map[string]func(*Spec){
		"nothing":    func(*Spec) {},
		"a hidden":   func(s *Spec) { s.Hidden[1].Ino = 4 },
		"a write":    func(s *Spec) { s.Keep[0].ReadOnly = true },
		"no hidden":  func(s *Spec) { s.Hidden = nil },
		"landlock":   func(s *Spec) { s.Rules[0].Path = "/usr" },
		"seccomp":    func(s *Spec) { s.Seccomp[0] = 1 },
		"a limit":    func(s *Spec) { s.Limits[0].Value = 7 },
		"open files": func(s *Spec) { s.OpenFiles[0]++ },
		"network":    func(s *Spec) { s.Loopback = false },
		"privileges": func(s *Spec) { s.NoNewPrivs = false },
	} {
		s := confinedBy("/workspace")
		change(&s)
		p, err := c.Compile(&s)
		if err != nil {
			t.Fatal(err)
		}
		text := string(bytes.Join(p, nil))
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s have the same program", name, other)
		}
		seen[text] = name
	}
}

// TestEveryFieldIdentifiesASpec: one that is added and left out would let a command run
// with the confinement of another.
func TestEveryFieldIdentifiesASpec(t *testing.T) {
	seen := map[string]string{(&Spec{}).identify(): "the empty one"}
	fields := reflect.TypeFor[Spec]()
	for i := range fields.NumField() {
		var s Spec
		fill(t, reflect.ValueOf(&s).Elem().Field(i))
		name, text := fields.Field(i).Name, s.identify()
		if other, ok := seen[text]; ok {
			t.Errorf("%s is not told from %s", name, other)
		}
		seen[text] = name
	}
}

// fill gives a value another content than none.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Array:
		fill(t, v.Index(v.Len()-1))
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, field)
		}
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}

// BenchmarkCompile is what a command costs before it is sent to its stage.
func BenchmarkCompile(b *testing.B) {
	s := confinedBy("/workspace")
	for i := range 55 {
		s.Hidden = append(s.Hidden, File{Path: "/people/someone/.config/secret" + strconv.Itoa(i)})
	}
	s = runs(s)[1]
	for name, c := range map[string]*Compiler{"anew": nil, "kept": {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Compile(&s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
