package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
)

// PushPath is where [Client.PushHandler] expects to be mounted, without
// authentication: each task has a secret of its own.
const PushPath = "/a2a/push/"

// tokenHeader carries the secret of a task.
const tokenHeader = "X-A2a-Notification-Token" //nolint:gosec // the name of a header

// maxNotice is how much of a notification is read. Nothing in it is believed.
const maxNotice = 1 << 20

// secret is what a peer has to know to tell of an attempt. It follows from the key,
// so that it holds after a restart.
func (c *Client) secret(taskID, runID string) string {
	mac := hmac.New(sha256.New, c.opt.Push.Key)
	mac.Write([]byte("a2a push\x00" + taskID + "\x00" + runID))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// pushConfig says where the peer can tell of the task; nil if it isn't to.
func (r *run) pushConfig() *proto.PushConfig {
	if r.c.opt.Push.URL == "" || r.line.door.peer.Delivery != DeliveryPush || !r.line.card.Capabilities.PushNotifications {
		return nil
	}
	return &proto.PushConfig{
		ID: "agentd-" + r.w.RunID, Token: r.c.secret(r.w.TaskID, r.w.RunID),
		URL: strings.TrimSuffix(r.c.opt.Push.URL, "/") + PushPath + r.w.TaskID + "/" + r.w.RunID,
	}
}

// PushHandler takes the notifications of peers. One with the right secret has the
// task asked for; the notification itself is not looked at, so neither its sender nor
// its order matters.
func (c *Client) PushHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(req.Body, maxNotice)) // so that the connection can be used again
		taskID, runID, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, PushPath), "/")
		given := req.Header.Get(tokenHeader)
		if !ok || len(c.opt.Push.Key) < 16 || !hmac.Equal([]byte(given), []byte(c.secret(taskID, runID))) {
			http.Error(w, "the token doesn't belong to this task", http.StatusUnauthorized)
			return
		}
		c.notify(taskID)
		w.WriteHeader(http.StatusNoContent)
	})
}

// notify has a task asked for, if something is done about it at all.
func (c *Client) notify(taskID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[taskID]; r != nil {
		signalChan(r.told)
	}
}
