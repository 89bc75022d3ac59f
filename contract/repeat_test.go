package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"agentd/command"
)

// keyedCall is a call that was made with an idempotency key.
type keyedCall struct {
	name command.Name
	body []byte
	told []byte
}

// TestEveryChangeIsMadeOnce carries out every command that changes something with an
// idempotency key, at once again and again when everything is over: each time the answer
// is the first one. Under the same key another call is a conflict.
func TestEveryChangeIsMadeOnce(t *testing.T) {
	c := &client{T: t, base: serve(t), operations: map[string]bool{}}
	var made []keyedCall
	covered := map[command.Name]bool{}
	c.around = func(name command.Name, body string) answer {
		d, ok := command.Lookup(name)
		if !ok || !d.Mutates {
			return c.want(http.StatusOK, http.MethodPost, "/v1/commands/"+string(name), body)
		}
		covered[name] = true
		call := keyedCall{name: name, body: withKey(t, body, fmt.Sprint("once-", len(made)))}
		first := c.want(http.StatusOK, http.MethodPost, "/v1/commands/"+string(name), string(call.body))
		call.told = first.body
		made = append(made, call)
		c.checkRepeated(&call)
		return first
	}
	driveCommands(c)
	for i := range made {
		c.checkRepeated(&made[i])
		other := string(withKey(t, `{"title":"something else"}`, fmt.Sprint("once-", i)))
		c.want(http.StatusConflict, http.MethodPost, "/v1/commands/create_session", other)
	}
	for _, d := range command.Catalog() {
		if d.Mutates && !covered[d.Name] {
			t.Errorf("%s is not tried", d.Name)
		}
	}
}

// checkRepeated makes a call again and wants its first answer.
func (c *client) checkRepeated(call *keyedCall) {
	c.Helper()
	again := c.want(http.StatusOK, http.MethodPost, "/v1/commands/"+string(call.name), string(call.body))
	if call.name == "reconnect_channel" {
		again.body, call.told = withoutSnapshot(c.T, again.body), withoutSnapshot(c.T, call.told)
	}
	if d, _ := command.Lookup(call.name); d.ShowsSecret { // once
		again.body, call.told = withoutSecret(c.T, again.body), withoutSecret(c.T, call.told)
	}
	if !bytes.Equal(again.body, call.told) {
		c.Errorf("%s %s\nwas told  %s\nand then  %s", call.name, call.body, call.told, again.body)
	}
}

// withKey adds an idempotency key to a body; it replaces one that is there.
func withKey(t *testing.T, body, key string) []byte {
	t.Helper()
	return changed(t, []byte(body), func(members map[string]json.RawMessage) { members["idempotencyKey"] = fmt.Appendf(nil, "%q", key) })
}

// withoutSnapshot removes what shows a session as it is at the time of each answer.
func withoutSnapshot(t *testing.T, body []byte) []byte {
	t.Helper()
	return changed(t, body, func(members map[string]json.RawMessage) { delete(members, "snapshot") })
}

// withoutSecret removes the token that an answer shows.
func withoutSecret(t *testing.T, body []byte) []byte {
	t.Helper()
	return changed(t, body, func(members map[string]json.RawMessage) { delete(members, "token") })
}

func changed(t *testing.T, body []byte, change func(map[string]json.RawMessage)) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	change(members)
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
