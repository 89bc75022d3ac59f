//go:build interopfixtures

package mcpserver_test

import (
	"image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestFixturesAreThereWhenAskedFor(t *testing.T) {
	k := newKit(t)
	k.options.Fixtures = true
	k.start()
	s := k.client("eve", newer, nil)
	if s.InitializeResult().Capabilities.Logging == nil { //nolint:staticcheck // the older revision still has it
		t.Error("the fixtures' capabilities are missing")
	}
	res, _ := k.call(s, "test_image_content", nil)
	image, ok := res.Content[0].(*mcp.ImageContent)
	if !ok {
		t.Fatalf("the content is %T", res.Content[0])
	}
	if _, err := png.Decode(strings.NewReader(string(image.Data))); err != nil {
		t.Errorf("the image: %v", err)
	}
	if list, err := s.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 3 {
		t.Errorf("the resources are %v %v", list, err)
	}
	// A fixture's task ends with the server.
	a := k.send("eve", "tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 3600}}, withTasks())
	if a.Status != http.StatusOK || a.Result["resultType"] != "task" {
		t.Errorf("no task: %s", a.Body)
	}
}

// An error of the protocol that comes after the stream has begun is a message of it.
func TestALateErrorOfAFixtureIsAMessageOfTheStream(t *testing.T) {
	k := newKit(t)
	k.options.Fixtures, k.options.Heartbeat = true, time.Nanosecond
	k.start()
	for {
		a := k.send("ann", "tools/call", map[string]any{"name": "failing_job"}, nil)
		if a.Error == nil || a.Error.Code != -32021 {
			t.Fatalf("the answer is %s", a.Body)
		}
		if strings.HasPrefix(a.Body, ":") {
			if a.Status != http.StatusOK || !strings.Contains(a.Body, "event: message\ndata: {") {
				t.Errorf("the stream is %d %s", a.Status, a.Body)
			}
			return
		}
		if a.Status != http.StatusBadRequest {
			t.Errorf("the status is %d", a.Status)
		}
	}
}
