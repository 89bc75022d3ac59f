package a2a_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/channel/a2a"
)

func TestListTasks(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		empty := k.call(b, "ListTasks", object{}).ok().result
		if list, ok := empty["tasks"].([]any); !ok || len(list) != 0 || empty["nextPageToken"] != "" || empty["totalSize"] != float64(0) || empty["pageSize"] != float64(50) {
			t.Fatalf("empty: %v", empty)
		}
		for i := range 5 {
			k.call(b, "SendMessage", message(fmt.Sprint("m", i), "say x", object{"contextId": fmt.Sprint("c", i%2)})).task()
		}
		waiting := k.call(b, "SendMessage", message("w", "ask What?")).task()
		all := k.call(b, "ListTasks", object{}).ok().result
		if str(all, "tasks", 0, "id") != str(waiting, "id") || len(all["tasks"].([]any)) != 6 {
			t.Errorf("the newest isn't first: %v", all)
		}
		if _, there := valueAt(all, "tasks", 1).(object)["artifacts"]; there {
			t.Error("artifacts without being asked for")
		}
		with := k.call(b, "ListTasks", object{"includeArtifacts": true}).ok().result
		if a, ok := valueAt(with, "tasks", 0, "artifacts").([]any); !ok || len(a) != 0 {
			t.Errorf("a task without artifacts has %v", valueAt(with, "tasks", 0))
		}
		if str(with, "tasks", 1, "artifacts", 0, "parts", 0, "text") != "x" {
			t.Errorf("a task with artifacts has %v", valueAt(with, "tasks", 1))
		}
		count := func(params object) int { return len(k.call(b, "ListTasks", params).ok().result["tasks"].([]any)) }
		for _, c := range []struct {
			params object
			want   int
		}{
			{object{"contextId": "c0"}, 3},
			{object{"contextId": "none"}, 0},
			{object{"status": "TASK_STATE_INPUT_REQUIRED"}, 1},
			{object{"status": "TASK_STATE_COMPLETED", "contextId": "c1"}, 2},
			{object{"status": "TASK_STATE_FAILED"}, 0},
			{object{"statusTimestampAfter": "2001-01-01T00:00:00Z"}, 6},
			{object{"statusTimestampAfter": "2999-01-01T00:00:00Z"}, 0},
		} {
			if got := count(c.params); got != c.want {
				t.Errorf("%v: %d tasks, expected %d", c.params, got, c.want)
			}
		}
		checkPages(t, k, b)
		for _, bad := range []object{
			{"pageSize": 0},
			{"pageSize": 101},
			{"pageSize": -1},
			{"historyLength": -1},
			{"status": "TASK_STATE_RUNNING"},
			{"pageToken": "%%%"},
			{"pageToken": "bm90aGluZw"},
			{"statusTimestampAfter": "yesterday"},
		} {
			if b == httpJSON && bad["pageSize"] == 0 {
				bad["pageSize"] = "0"
			}
			k.call(b, "ListTasks", bad).fails("INVALID_PARAMS")
		}
	})
}

// checkPages goes through six tasks two at a time.
func checkPages(t *testing.T, k *kit, b binding) {
	t.Helper()
	seen := map[string]bool{}
	token, last := "", time.Now().Add(time.Hour)
	for range 3 {
		page := k.call(b, "ListTasks", object{"pageSize": 2, "pageToken": token}).ok().result
		if page["totalSize"] != float64(6) || page["pageSize"] != float64(2) {
			t.Errorf("page %v", page)
		}
		for _, task := range page["tasks"].([]any) {
			at, err := time.Parse(time.RFC3339Nano, str(task, "status", "timestamp"))
			if err != nil || at.After(last) {
				t.Errorf("%v after %v (%v)", at, last, err)
			}
			last = at
			seen[str(task, "id")] = true
		}
		token = str(page, "nextPageToken")
	}
	if len(seen) != 6 || token != "" {
		t.Errorf("%d of six tasks in three pages, then %q", len(seen), token)
	}
}

// TestPagesAreBoundedInBytes: a page that would be too large has fewer tasks, and
// the next one begins behind them; a task that is too large by itself is alone.
func TestPagesAreBoundedInBytes(t *testing.T) {
	const most = 20_000
	both(t, func(t *testing.T, b binding) {
		k := newKit(t, func(o *a2a.Options) { o.MaxList = most })
		sizes := []int{1000, 9000, 30_000, 100, 9000, 100}
		for i, n := range sizes {
			k.call(b, "SendMessage", message(fmt.Sprint("m", i), "say "+strings.Repeat("x", n))).task()
		}
		var seen []string
		pages := 0
		for token := ""; pages == 0 || token != ""; pages++ {
			a := k.call(b, "ListTasks", object{"pageSize": 50, "pageToken": token, "includeArtifacts": true}).ok()
			list := a.result["tasks"].([]any)
			if size, err := json.Marshal(list); err != nil || len(list) == 0 || (len(list) > 1 && len(size) > most+2*len(list)) {
				t.Errorf("page %d has %d tasks in %d bytes (%v)", pages, len(list), len(size), err)
			}
			if a.result["totalSize"] != float64(len(sizes)) || a.result["pageSize"] != float64(50) {
				t.Errorf("page %d says %v of %v", pages, a.result["pageSize"], a.result["totalSize"])
			}
			for _, task := range list {
				seen = append(seen, str(task, "id"))
			}
			token = str(a.result, "nextPageToken")
		}
		slices.Sort(seen)
		if len(slices.Compact(seen)) != len(sizes) || pages < 3 {
			t.Errorf("%d tasks in %d pages: %v", len(seen), pages, seen)
		}
	})
}
