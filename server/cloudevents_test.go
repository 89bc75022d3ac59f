package server_test

import (
	"net/http"
	"testing"

	"agentd/transfer"
)

// TestCloudEventsPages: the link to the next page keeps the filter, and a view that
// has no CloudEvents is the caller's mistake.
func TestCloudEventsPages(t *testing.T) {
	r := run(t, nil)
	r.fake.open("s", "a")
	r.fake.deltas("s", 4)
	ask := func(query string) answer {
		req := r.request(http.MethodGet, "/v1/sessions/s/events?"+query, "")
		req.Header.Set("Accept", transfer.CloudEventsType)
		return r.sendRequest(req)
	}
	a := ask("types=model.*&limit=1")
	if link := a.header.Get("Link"); a.status != http.StatusOK || link != `<?after=2&limit=1&types=model.%2A>; rel="next"` {
		t.Errorf("%d, link %s", a.status, link)
	}
	if a := ask("view=items"); a.status != http.StatusBadRequest || a.problem(t).Code != "invalid_params" {
		t.Errorf("items: %d %s", a.status, a.body)
	}
}
