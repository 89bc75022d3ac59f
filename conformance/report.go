package conformance

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Report is what a [Checker] found.
type Report struct {
	// Sources and Events count what was read.
	Sources int `json:"sources"`
	Events  int `json:"events"`
	// Checks has a result for every check, also for those that nothing was found for.
	Checks []Result `json:"checks"`
	// Notes say what could not be looked at.
	Notes []string `json:"notes,omitempty"`
}

// Result is what one check found.
type Result struct {
	Check
	// Made counts how often the check was made, Failed how often something was wrong.
	Made   int `json:"made"`
	Failed int `json:"failed"`
	// Findings are the first ones.
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is one thing that is wrong.
type Finding struct {
	// Where is the file, and the line of a stream.
	Where   string `json:"where"`
	Message string `json:"message"`
}

// Conforms reports whether nothing that the standard demands was violated; strict
// counts what it only recommends, too.
func (r *Report) Conforms(strict bool) bool {
	for i := range r.Checks {
		if x := &r.Checks[i]; x.Failed > 0 && (strict || x.Level == Must) {
			return false
		}
	}
	return true
}

// Empty reports whether nothing was wrong but that there was nothing to check in a
// source, or in all.
func (r *Report) Empty() bool {
	empty := false
	for i := range r.Checks {
		switch x := &r.Checks[i]; {
		case x.Failed > 0 && x.ID == checkEmpty:
			empty = true
		case x.Failed > 0 && x.Level == Must:
			return false
		}
	}
	return empty
}

// count returns the numbers of checks that were made, and of those that failed by level.
func (r *Report) count() (made, failed, advised int) {
	for i := range r.Checks {
		switch x := &r.Checks[i]; {
		case x.Failed > 0 && x.Level == Must:
			failed++
			made++
		case x.Failed > 0:
			advised++
			made++
		case x.Made > 0:
			made++
		}
	}
	return made, failed, advised
}

// Paint colours words of a report for terminals; nil leaves them as they are.
type Paint struct {
	Bad, Advice, Good, Dim func(string) string
}

func (p *Paint) with(f func(*Paint) func(string) string, s string) string {
	if p == nil || f(p) == nil {
		return s
	}
	return f(p)(s)
}

// WriteText writes the report for people. Clean makes text of others fit to be shown;
// nil leaves it as it is.
func (r *Report) WriteText(w io.Writer, paint *Paint, clean func(string) string) error {
	if clean == nil {
		clean = func(s string) string { return s }
	}
	var b strings.Builder
	for i := range r.Checks {
		x := &r.Checks[i]
		if x.Failed == 0 {
			continue
		}
		word := paint.with(func(p *Paint) func(string) string { return p.Bad }, "FAIL")
		if x.Level == Should {
			word = paint.with(func(p *Paint) func(string) string { return p.Advice }, "ADVICE")
		}
		fmt.Fprintf(&b, "%s %s: %s\n", word, x.ID, x.Says)
		fmt.Fprintf(&b, "  %s\n", paint.with(func(p *Paint) func(string) string { return p.Dim }, x.Paragraph))
		for _, f := range x.Findings {
			fmt.Fprintf(&b, "  %s: %s\n", clean(f.Where), clean(f.Message))
		}
		if more := x.Failed - len(x.Findings); more > 0 {
			fmt.Fprintf(&b, "  and %d more\n", more)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", clean(n))
	}
	made, failed, advised := r.count()
	verdict := paint.with(func(p *Paint) func(string) string { return p.Good }, "conforms")
	switch {
	case r.Empty() && made == len(inputChecks()):
		verdict = paint.with(func(p *Paint) func(string) string { return p.Bad }, "nothing was checked")
	case r.Empty():
		verdict = paint.with(func(p *Paint) func(string) string { return p.Bad }, "not all was checked")
	case failed > 0:
		verdict = paint.with(func(p *Paint) func(string) string { return p.Bad }, "does not conform")
	}
	fmt.Fprintf(&b, "%s: %s, %s, %d of %d checks apply, %d failed, %d with advice\n", verdict, counted(r.Sources, "source"), counted(r.Events, "event"), made, len(r.Checks), failed, advised)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the report as one JSON object, with the verdict as conforms.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Conforms bool `json:"conforms"`
		*Report
	}{r.Conforms(false), r})
}

// The parts of a JUnit report.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class      string          `xml:"classname,attr"`
		Name       string          `xml:"name,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Failure    *junitFailure   `xml:"failure,omitempty"`
		Skipped    *junitSkipped   `xml:"skipped,omitempty"`
		Out        string          `xml:"system-out,omitempty"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes the report for CI systems: each check is a test case, which says what
// it demands and on which paragraph it rests. Strict makes advice a failure.
func (r *Report) WriteJUnit(w io.Writer, strict bool) error {
	suite := junitSuite{Name: "agent-runtime-conformance", Tests: len(r.Checks)}
	for i := range r.Checks {
		x := &r.Checks[i]
		c := junitCase{Class: string(x.Scope), Name: x.ID, Properties: []junitProperty{{"paragraph", x.Paragraph}, {"says", x.Says}}}
		var found strings.Builder
		for _, f := range x.Findings {
			fmt.Fprintf(&found, "%s: %s\n", f.Where, f.Message)
		}
		switch {
		case x.Failed > 0 && (strict || x.Level == Must):
			suite.Failures++
			c.Failure = &junitFailure{Type: string(x.Level), Message: x.Says + " (" + x.Paragraph + ")", Text: found.String()}
		case x.Failed > 0:
			c.Out = x.Says + " (" + x.Paragraph + ")\n" + found.String()
		case x.Made == 0:
			suite.Skipped++
			c.Skipped = &junitSkipped{"nothing that it applies to was there"}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(&suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// counted says how many of something there are.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
