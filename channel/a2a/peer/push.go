package peer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/fault"
)

// PushPath is where [Client.PushHandler] expects to be mounted, without
// authentication: each task has a secret of its own.
const PushPath = "/a2a/push/"

// tokenHeader carries the secret of a task.
const tokenHeader = "X-A2a-Notification-Token" //nolint:gosec // the name of a header

// maxNotice is how much of a notification is read. Nothing in it is believed.
const maxNotice = 1 << 20

// secret is what a peer has to know to tell of an attempt. It follows from the key,
// so that it holds after a restart, and on all nodes that have the key.
func secret(key []byte, taskID, runID string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("a2a push\x00" + taskID + "\x00" + runID))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// pushConfig says where the peer can tell of the task; nil if it isn't to.
func (r *run) pushConfig() *proto.PushConfig {
	if r.c.opt.Push.URL == "" || r.line.door.peer.Delivery != DeliveryPush || !r.line.card.Capabilities.PushNotifications {
		return nil
	}
	return &proto.PushConfig{
		ID: "agentd-" + r.w.RunID, Token: secret(r.c.opt.Push.Key, r.w.TaskID, r.w.RunID),
		URL: strings.TrimSuffix(r.c.opt.Push.URL, "/") + PushPath + r.w.TaskID + "/" + r.w.RunID,
	}
}

// knowsSecret reports whether a secret is that of an attempt.
func (c *Client) knowsSecret(ctx context.Context, given, taskID, runID string) bool {
	if len(c.opt.Push.Key) < 16 {
		return false
	}
	if hmac.Equal([]byte(given), []byte(secret(c.opt.Push.Key, taskID, runID))) {
		return true
	}
	if c.opt.Push.OtherKeys == nil || given == "" {
		return false
	}
	keys, err := c.opt.Push.OtherKeys(ctx)
	if err != nil {
		c.opt.Logger.Warn("keys of notifications could not be read", "error", err)
		return false
	}
	for _, key := range keys {
		if hmac.Equal([]byte(given), []byte(secret(key, taskID, runID))) {
			return true
		}
	}
	return false
}

// PushHandler takes the notifications of peers. One with the right secret has the
// task asked for; the notification itself is not looked at, so neither its sender nor
// its order matters. The node that follows the task is asked to, if it is another one.
func (c *Client) PushHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(req.Body, maxNotice)) // so that the connection can be used again
		taskID, runID, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, PushPath), "/")
		if !ok || !c.knowsSecret(req.Context(), req.Header.Get(tokenHeader), taskID, runID) {
			http.Error(w, "the token doesn't belong to this task", http.StatusUnauthorized)
			return
		}
		if !c.notify(taskID) && c.passOn(req.Context(), taskID) {
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// notify has a task asked for, if this process follows it at all.
func (c *Client) notify(taskID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runs[taskID]
	if r != nil {
		signalChan(r.told)
	}
	return r != nil
}

// passOn has the node answer that follows a task. It reports whether there is another one.
func (c *Client) passOn(ctx context.Context, taskID string) bool {
	c.mu.Lock()
	started := c.state == running
	c.mu.Unlock()
	if !started || c.opt.Push.PassOn == nil {
		return false
	}
	w, err := c.work(ctx, taskID)
	if err == nil {
		return w.Active && c.opt.Push.PassOn(ctx, w.SessionID)
	}
	if fault.KindOf(err) != fault.NotFound {
		c.opt.Logger.Debug("a notification of a task could not be passed on", "taskId", taskID, "error", err)
	}
	return false
}
