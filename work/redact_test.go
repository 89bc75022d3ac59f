package work_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

// witness is a store that remembers in which writes a text occurred.
type witness struct {
	store.Store
	text []byte
	mu   sync.Mutex
	seen []string
}

func (w *witness) recordSeen(what string, content []byte) {
	if !bytes.Contains(content, w.text) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf("%s: %.300s", what, content))
}

func (w *witness) Append(ctx context.Context, batches []*store.Batch) []error {
	for _, b := range batches {
		for _, r := range b.Records {
			w.recordSeen("fact", r.Data)
		}
		for _, s := range b.Snapshots {
			w.recordSeen("record "+s.Name, s.Data)
		}
		for _, op := range b.Index {
			w.recordSeen("index", []byte(fmt.Sprintf("%s %s %s", op.Kind, op.Key, op.Value)))
		}
		for _, blob := range b.Blobs {
			w.recordSeen("blob", blob)
		}
	}
	return w.Store.Append(ctx, batches)
}

func (w *witness) PutBlob(ctx context.Context, r io.Reader) (store.BlobInfo, error) {
	content, err := io.ReadAll(r)
	if err != nil {
		return store.BlobInfo{}, err
	}
	w.recordSeen("large blob", content)
	return w.Store.PutBlob(ctx, bytes.NewReader(content))
}

// planted are commands with a secret wherever a caller may put one. LONG is a
// secret in a text that is kept behind a reference.
var planted = []struct{ name, params string }{
	{"create_session", `{"sessionId":"sess_p"}`},
	{"create_task", `{"taskId":"task_1","sessionId":"sess_p","title":"T SECRET","objective":"O SECRET","worker":"external","taskKind":"K SECRET","priority":"P SECRET",
		"acceptance":[{"id":"c1","description":"D SECRET","reason":"R SECRET","evidenceRefs":["E SECRET"]}],"metadata":{"m":"SECRET"},"scope":{"s":"SECRET"},"taskFamily":"F SECRET",
		"owner":{"kind":"user","id":"I SECRET"},"assignee":{"kind":"user","id":"I SECRET"},"taskProfile":{"kind":"SECRET","source":"SECRET"}}`},
	{"create_task", `{"taskId":"task_2","sessionId":"sess_p","objective":"LONG","worker":"external","start":true,"retryPolicy":{"maxAttempts":3,"nonRetryable":["N SECRET"]}}`},
	{"create_task", `{"objective":"a session of its own SECRET","title":"SECRET"}`},
	{"update_task", `{"taskId":"task_1","title":"T SECRET","objective":"LONG","reason":"R SECRET","metadata":{"m":"SECRET"},"scope":{"s":"SECRET"},"taskFamily":"F SECRET","validationState":"V SECRET","artifacts":[{"artifactId":"artifact_1","uri":"file:SECRET"}],"evidenceRefs":["e SECRET"],"deliveryState":{"status":"pending","target":"SECRET","reason":"SECRET"}}`},
	{"start_task", `{"taskId":"task_1","reason":"R SECRET"}`},
	{"append_task_progress", `{"taskId":"task_1","progress":{"phase":"P SECRET","summary":"S SECRET","currentStep":"C SECRET","counters":{"files":1}},"outputRefs":["o SECRET"],"checkpointRefs":["c SECRET"],"validationState":"V SECRET","deliveryState":{"status":"pending","target":"SECRET","reason":"SECRET"}}`},
	{"pause_task", `{"taskId":"task_1","reason":"R SECRET"}`},
	{"resume_task", `{"taskId":"task_1","reason":"R SECRET"}`},
	{"complete_task", `{"taskId":"task_1","summary":"S SECRET","outputRefs":["o SECRET"],"checkpointRefs":["c SECRET"],"artifacts":[{"artifactId":"artifact_2","uri":"u SECRET"}],"evidenceRefs":["e SECRET"],"deliveryState":{"status":"delivered","target":"SECRET"},
		"acceptance":[{"id":"c1","status":"waived","reason":"W SECRET","evidenceRefs":["e SECRET"]}]}`},
	{"fail_task", `{"taskId":"task_2","error":{"message":"M SECRET","category":"C SECRET","advice":"A SECRET","retryable":false},"outputRefs":["o SECRET"],"checkpointRefs":["c SECRET"]}`},
	{"retry_task", `{"taskId":"task_2","reason":"R SECRET"}`},
	{"link_tasks", `{"taskId":"task_2","kind":"source_task","targetId":"task_1","reason":"R SECRET"}`},
	{"unlink_tasks", `{"taskId":"task_2","kind":"source_task","targetId":"task_1","reason":"R SECRET"}`},
	{"cancel_task", `{"taskId":"task_2","reason":"R SECRET"}`},
	{"archive_task", `{"taskId":"task_2","reason":"R SECRET"}`},
	{"spawn_subagent", `{"subagentId":"sub_1","sessionId":"sess_p","threadId":"THREAD","role":"R SECRET","nickname":"N SECRET","input":"I SECRET","metadata":{"m":"SECRET"}}`},
	{"send_subagent_input", `{"subagentId":"sub_1","input":"LONG"}`},
	{"close_subagent", `{"subagentId":"sub_1","reason":"R SECRET"}`},
	{"resume_subagent", `{"subagentId":"sub_1"}`},
	{"create_job", `{"jobId":"job_1","sessionId":"sess_p","title":"T SECRET","instruction":"I SECRET","items":[{"input":"SECRET"},{"input":{"a":"SECRET"}},{"input":"fail SECRET"}],
		"metadata":{"m":"SECRET"},"outputSchema":{"type":"string","description":"SECRET"},"start":false}`},
	{"create_job", `{"title":"a session of its own SECRET","instruction":"LONG","items":[{"input":"SECRET"}]}`},
	{"cancel_job", `{"jobId":"job_1","reason":"R SECRET"}`},
	{"create_job", `{"jobId":"job_2","sessionId":"sess_p","instruction":"I SECRET","items":[{"input":"SECRET"}],"start":false}`},
	{"start_job", `{"jobId":"job_2"}`},
	{"create_job", `{"jobId":"job_3","sessionId":"sess_p","instruction":"stall","items":[{"input":"SECRET"}]}`},
	{"report_job_item", `{"jobId":"job_3","itemId":"item_000001","output":"O SECRET"}`},
	{"create_schedule", `{"scheduleId":"schedule_1","sessionId":"sess_p","title":"T SECRET","cron":"@yearly","job":{"instruction":"I SECRET","items":[{"input":"LONG"}]}}`},
	{"create_schedule", `{"title":"a session of its own SECRET","cron":"@yearly","task":{"objective":"O SECRET"}}`},
	{"pause_schedule", `{"scheduleId":"schedule_1","reason":"R SECRET"}`},
	{"resume_schedule", `{"scheduleId":"schedule_1","reason":"R SECRET"}`},
	{"delete_schedule", `{"scheduleId":"schedule_1","reason":"R SECRET"}`},
}

// notPlanted are the commands that take nothing but ids.
var notPlanted = []string{"retry_job_item", "run_schedule"}

// TestNoCommandStoresASecret plants a secret in every text that a command about
// tasks, subagents, jobs and schedules takes: it is in no write to the store.
func TestNoCommandStoresASecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := strings.Join([]string{"planted", "value", "9Qx7"}, "-")
		spy := &witness{Store: storetest.Strict(t, storetest.NewMem()), text: []byte(secret)}
		k := &crew{TB: t, store: spy, redact: func(v event.Raw) event.Raw {
			return bytes.ReplaceAll(v, []byte(secret), []byte("[redacted]"))
		}, script: &script.Script{Answers: []script.Answer{when("stall", script.Answer{Stall: time.Hour})}}}
		k.started()
		ctx, threadID := context.Background(), ""
		done := slices.Clone(notPlanted)
		for i, c := range planted {
			params := strings.NewReplacer("LONG", strings.Repeat("long ", 2000)+secret, "SECRET", secret, "THREAD", threadID).Replace(c.params)
			p, err := command.Decode(command.Name(c.name), []byte(params))
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			res, err := k.runCommand(ctx, command.Local(), p)
			if err != nil {
				t.Fatalf("%s (%d): %v", c.name, i, err)
			}
			if made, ok := res.(*command.CreateSessionResult); ok {
				threadID = made.ThreadID
			}
			done = append(done, c.name)
			synctest.Wait()
		}
		// A worker that was stopped reports: that is kept too.
		late, err := command.Decode("complete_task", []byte(`{"taskId":"task_2","summary":"`+secret+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.runCommand(ctx, command.Local(), late); err == nil {
			t.Error("a late report was taken for one in time")
		}
		for _, s := range spy.seen {
			t.Errorf("stored: %s", s)
		}
		for _, d := range command.Catalog() {
			if slices.Contains([]string{"task", "subagent", "job", "schedule"}, d.Noun) && d.Mutates && !slices.Contains(done, string(d.Name)) {
				t.Errorf("%s is not tried", d.Name)
			}
		}
	})
}

// TestASecretInPlaceOfAnIDIsRefused doesn't store what it can't clean.
func TestASecretInPlaceOfAnIDIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := strings.Join([]string{"planted", "value", "9Qx7"}, "-")
		k := &crew{TB: t, store: newCrewStore(t), redact: func(v event.Raw) event.Raw {
			return bytes.ReplaceAll(v, []byte(secret), []byte("[redacted]"))
		}}
		k.started()
		k.hire("task_a", 0, nil)
		k.refuse("invalid_params", &command.AppendTaskProgress{TaskID: "task_a", RunID: secret, Progress: &event.Progress{}}, "runId", "secret")
	})
}
