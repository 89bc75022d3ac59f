package proof_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/redact"
	"agentd/telemetry"
	"agentd/tool"
	"agentd/transfer"
)

// keptBundle keeps the files of a bundle.
type keptBundle map[string]*bytes.Buffer

func (b keptBundle) Create(path string) (io.Writer, error) {
	b[path] = &bytes.Buffer{}
	return b[path], nil
}

// leaks returns the form in which a document has a secret; empty if it has none. It
// looks for the text, and for what base64 makes of it wherever it begins.
func leaks(doc, secret string) string {
	if strings.Contains(doc, secret) || strings.Contains(doc, strings.ToLower(secret)) {
		return "as it is"
	}
	for shift := range 3 {
		coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		if inner := coded[4 : len(coded)-4]; strings.Contains(doc, inner) {
			return "in base64"
		}
	}
	return ""
}

// TestPlantedSecretsAreInNothingThatLeaves plants secrets wherever text comes from: a
// person, a model, a file, a tool that fails, a score. Everything that can be taken
// away is searched for them.
func TestPlantedSecretsAreInNothingThatLeaves(t *testing.T) {
	secret := strings.Join([]string{"sk", "live", strings.Repeat("Ab3", 8)}, "-") + "q9Zx"
	k, session := planted(t, secret)
	docs := takenAway(k, session)
	for name, doc := range docs {
		if how := leaks(doc, secret); how != "" {
			t.Errorf("%s has the secret %s", name, how)
		}
		if len(doc) < 100 {
			t.Errorf("%s is empty: %s", name, doc)
		}
	}
	if len(docs) < 18 {
		t.Errorf("only %d documents were looked at", len(docs))
	}
	// The search finds what is there.
	if leaks(`{"a":"`+secret+`"}`, secret) == "" || leaks(base64.StdEncoding.EncodeToString([]byte("ab"+secret+"c")), secret) == "" {
		t.Error("the search finds nothing")
	}
}

// planted runs two trials in which a secret comes from everywhere.
func planted(t *testing.T, secret string) (k *runtimetest.Kit, sessionID string) {
	t.Helper()
	fails := runtimetest.ReadOnlyTool("fails", func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.Execution, "login with %s was refused", secret)
	})
	one := []script.Answer{
		{Reasoning: "I use " + secret, Text: "Using " + secret, Tools: []script.Tool{{Name: "read_file", Arguments: map[string]any{"path": "env"}}}},
		runtimetest.CallsTool("fails", map[string]any{"with": secret}), runtimetest.CallsTool("write_file", map[string]any{"path": "b", "content": secret}),
		runtimetest.CallsTool("write_file", map[string]any{"path": "c", "content": "nothing"}), runtimetest.Says("It is " + secret),
	}
	k = runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("bypass"), runtimetest.WithTools(t, fails), func(o *agentd.Options) {
		o.Loop.Redact = redact.New(redact.Options{Values: []string{secret}})
	}), append(one, one...)...)
	k.WriteFile("env", "TOKEN="+secret+"\n"+strings.Repeat("x "+secret+"\n", 400))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_planted", Title: "with " + secret, Metadata: event.Raw(`{"key":` + string(runtimetest.Quoted(secret)) + `}`)})
	for i, configuration := range []string{"base", "cand"} {
		id := "trial_" + configuration
		k.RunTrial(&command.StartBenchmarkTrial{
			SessionID: "sess_planted", Benchmark: runtimetest.TrialOf(id, "fix-7", configuration), Input: runtimetest.Quoted("Use " + secret + "."),
			Configuration: event.Raw(`{"prompt":` + string(runtimetest.Quoted(secret)) + `}`),
		})
		p := runtimetest.ScoreOf(id, float64(i))
		p.Reward.Criteria = []string{"uses " + secret}
		runtimetest.Do[command.TrialResult](k, p)
	}
	return k, "sess_planted"
}

// takenAway is everything that can be exported of a session, by name.
func takenAway(k *runtimetest.Kit, sessionID string) map[string]string {
	k.Helper()
	docs := map[string]string{}
	scope := command.ExportScope{SessionID: sessionID}
	pack := k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportEvidence{ExportScope: scope}).Ref)
	replay := k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportReplay{ExportScope: scope}).Ref)
	review := k.ReadOutput(runtimetest.Do[command.ExportResult](k, &command.ExportReview{ExportScope: scope}).Ref)
	docs["evidence pack"], docs["replay case"], docs["review"] = pack, replay, review
	var page struct{ Markdown, HTML string }
	if err := json.Unmarshal([]byte(review), &page); err != nil {
		k.Fatal(err)
	}
	docs["review as Markdown"], docs["review as HTML"] = page.Markdown, page.HTML
	shapes(k, docs, pack, replay)
	trials(k, docs)
	sent(k, docs, sessionID)
	var whole bytes.Buffer
	if err := k.Runtime.ExportSession(context.Background(), command.Local(), sessionID, &whole); err != nil {
		k.Fatal(err)
	}
	docs["exported session"] = whole.String()
	return docs
}

// shapes are the bundle and the forms of the sibling standard.
func shapes(k *runtimetest.Kit, docs map[string]string, pack, replay string) {
	k.Helper()
	bundle, sibling := keptBundle{}, keptBundle{}
	var one, again bytes.Buffer
	open := func(ref string) (io.ReadCloser, error) {
		b, _, err := k.Runtime.Output(context.Background(), command.Local(), ref)
		return b, err
	}
	for what, err := range map[string]error{
		"bundle":          evidence.WriteBundle(strings.NewReader(pack), open, bundle),
		"sibling":         evidence.WriteSibling(strings.NewReader(pack), "ref", &one),
		"sibling bundle":  evidence.WriteSiblingBundle(strings.NewReader(pack), "ref", sibling),
		"sibling replay ": evidence.WriteSiblingReplay(strings.NewReader(replay), "ref", &again),
	} {
		if err != nil {
			k.Fatalf("%s: %v", what, err)
		}
	}
	docs["sibling evidence"], docs["sibling replay"] = one.String(), again.String()
	for name, files := range map[string]keptBundle{"bundle": bundle, "sibling bundle": sibling} {
		all := ""
		for path, b := range files {
			all += path + "\n" + b.String() + "\n"
		}
		docs[name] = all
	}
}

// trials are the packs and trajectories of the trials, and their comparison.
func trials(k *runtimetest.Kit, docs map[string]string) {
	k.Helper()
	for _, id := range []string{"trial_base", "trial_cand"} {
		x := runtimetest.Do[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: id})
		docs["pack of "+id], docs["trajectory of "+id] = string(x.Pack), string(x.Trajectory)
	}
	res := runtimetest.Do[command.CompareBenchmarkRunsResult](k, &command.CompareBenchmarkRuns{
		Baseline: &command.ComparedRun{ConfigurationID: "base", TrialIDs: []string{"trial_base"}}, Candidate: &command.ComparedRun{ConfigurationID: "cand", TrialIDs: []string{"trial_cand"}},
	})
	b, err := json.Marshal(res)
	if err != nil {
		k.Fatal(err)
	}
	docs["comparison"] = string(b)
	docs["benchmark of Agent QC"] = k.ReadOutput(res.Comparison.ComparisonRef)
}

// sent is the telemetry, with content and without, and each fact as a CloudEvent.
func sent(k *runtimetest.Kit, docs map[string]string, sessionID string) {
	k.Helper()
	var clouds bytes.Buffer
	for name, options := range map[string][]telemetry.Option{"spans": nil, "spans with content": {telemetry.Content()}} {
		p := telemetry.New(sessionID, options...)
		var spans []telemetry.Span
		var meter telemetry.Meter
		for _, e := range k.Facts(sessionID) {
			out := p.Apply(e)
			spans = append(spans, out.Spans...)
			meter.Add(out.Measures)
			one, err := transfer.CloudEvent(event.AppendJSON(nil, e))
			if err != nil {
				k.Fatal(err)
			}
			clouds.Write(one)
		}
		traces, err := telemetry.TracesJSON(telemetry.Resource{}, spans)
		if err != nil {
			k.Fatal(err)
		}
		metrics, err := telemetry.MetricsJSON(telemetry.Resource{}, meter.Snapshot(time.Unix(0, 0), time.Unix(1, 0)))
		if err != nil {
			k.Fatal(err)
		}
		docs[name], docs["metrics beside "+name] = string(traces), string(metrics)
	}
	if !strings.Contains(docs["spans with content"], "[redacted") {
		k.Error("the spans with content have none")
	}
	docs["CloudEvents"] = clouds.String()
}
