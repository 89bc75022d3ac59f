package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is a line of "go test -json"; "go doc test2json" describes it.
type event struct {
	Action  string  `json:"Action"`
	Package string  `json:"Package"`
	Test    string  `json:"Test"`
	Output  string  `json:"Output"`
	Elapsed float64 `json:"Elapsed"`
}

// Only so many of the slowest tests are named, and only such as took so many seconds.
const (
	slowestNamed = 40
	slowFrom     = 10
)

// report gathers what the tests print until it is known whether to show it.
type report struct {
	out      io.Writer
	pending  bytes.Buffer // what is printed next, in one piece: another pass may print beside this one
	packages map[string]*pack
	skipped  map[string]map[string][]string // reason, package, tests
	tests    int                            // that were skipped
	slow     []event
}

// pack is a package whose tests run.
type pack struct {
	output []string            // of the package itself
	order  []string            // tests that have not passed, in the order of their start
	tests  map[string][]string // their output
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: map[string]*pack{}, skipped: map[string]map[string][]string{}}
}

func (r *report) line(line []byte) {
	defer r.flush()
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		r.print(string(line))
		return
	}
	switch {
	case e.Action == "build-output":
		r.print(e.Output)
	case e.Package == "":
	case e.Action == "output":
		r.packOf(e.Package).add(e.Test, e.Output)
	case e.Test == "":
		r.endPackage(e)
	default:
		r.endTest(e)
	}
}

func (r *report) packOf(name string) *pack {
	p := r.packages[name]
	if p == nil {
		p = &pack{tests: map[string][]string{}}
		r.packages[name] = p
	}
	return p
}

func (p *pack) add(test, text string) {
	if test == "" {
		p.output = append(p.output, text)
		return
	}
	if _, known := p.tests[test]; !known {
		p.order = append(p.order, test)
	}
	p.tests[test] = append(p.tests[test], text)
}

func (p *pack) forget(test string) {
	delete(p.tests, test)
	p.order = slices.DeleteFunc(p.order, func(name string) bool { return name == test })
}

// endTest drops the output of a test that has passed or was skipped. That of one
// that failed is shown with its package, so that it stands in one piece.
func (r *report) endTest(e event) {
	p := r.packOf(e.Package)
	if e.Elapsed >= slowFrom && !strings.Contains(e.Test, "/") {
		r.slow = append(r.slow, e)
	}
	switch e.Action {
	case "skip":
		r.skip(e, lastReason(p.tests[e.Test]))
		p.forget(e.Test)
	case "pass":
		p.forget(e.Test)
	}
}

func (r *report) skip(e event, why string) {
	if r.skipped[why] == nil {
		r.skipped[why] = map[string][]string{}
	}
	r.skipped[why][e.Package] = append(r.skipped[why][e.Package], e.Test)
	r.tests++
}

// endPackage prints the package's line, and before it what failed. A test that
// neither passed nor failed was cut off with its package, and is shown too.
func (r *report) endPackage(e event) {
	p := r.packOf(e.Package)
	switch e.Action {
	case "fail":
		for _, test := range p.order {
			r.print(strings.Join(withoutMarks(p.tests[test]), ""))
		}
		r.print(strings.Join(p.output, ""))
	case "pass", "skip":
		for _, text := range p.output {
			if strings.HasPrefix(text, "ok ") || strings.HasPrefix(text, "? ") {
				r.print(text)
			}
		}
	default: // start, and what later versions may bring
		return
	}
	delete(r.packages, e.Package)
}

// withoutMarks leaves out the lines about the pauses of parallel tests.
func withoutMarks(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		for _, mark := range []string{"=== PAUSE ", "=== CONT ", "=== NAME "} {
			if strings.HasPrefix(line, mark) {
				return true
			}
		}
		return false
	})
}

// finish shows what never ended, as when the command was killed, then the slowest tests and
// what was skipped.
func (r *report) finish() {
	defer r.flush()
	for _, name := range sortedKeys(r.packages) {
		r.endPackage(event{Action: "fail", Package: name})
	}
	r.nameSlowest()
	if r.tests == 0 {
		return
	}
	r.print(fmt.Sprintf("skipped: %d tests\n", r.tests))
	for _, why := range sortedKeys(r.skipped) {
		r.print("  " + why + "\n")
		for _, name := range sortedKeys(r.skipped[why]) {
			r.print("    " + name + ": " + strings.Join(r.skipped[why][name], ", ") + "\n")
		}
	}
}

// nameSlowest says where the time of a run went. Tests share the machine: how long one took says
// little of what it would take alone.
func (r *report) nameSlowest() {
	if len(r.slow) == 0 {
		return
	}
	slices.SortStableFunc(r.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	r.print("slowest tests, in seconds:\n")
	for _, e := range r.slow[:min(len(r.slow), slowestNamed)] {
		r.print(fmt.Sprintf("  %5.0f  %s: %s\n", e.Elapsed, e.Package, e.Test))
	}
}

// logged is a line that a test printed with its place in the code.
var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// lastReason returns the first line of what a test said last.
func lastReason(output []string) string {
	for _, line := range slices.Backward(output) {
		if found := logged.FindStringSubmatch(line); found != nil {
			return strings.TrimSpace(found[1])
		}
	}
	return "(no reason given)"
}

func (r *report) print(text string) {
	r.pending.WriteString(text)
}

func (r *report) flush() {
	if r.pending.Len() > 0 {
		_, _ = r.pending.WriteTo(r.out) // there is nowhere to report that it failed
	}
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
