package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel"
	"agentd/channel/a2a/dial"
	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// Bounds of a configuration.
const (
	maxURL        = 2048
	maxCredential = 8192
)

// checkPush refuses a push configuration that can't be used.
func (s *Server) checkPush(p *proto.PushConfig) error {
	if s.seal == nil {
		return errorf(pushNotSupported, "this agent sends no push notifications")
	}
	u, err := url.Parse(p.URL)
	switch {
	case p.URL == "":
		return badParam("url", "is missing")
	case err != nil || len(p.URL) > maxURL || !webURL(p.URL):
		return badParam("url", "is not an http or https URL")
	case u.User != nil:
		return badParam("url", "contains user information; put credentials into authentication")
	case len(p.ID) > maxID || !plainID(p.ID):
		return badParam("id", "is longer than %d bytes or has control characters", maxID)
	case len(p.Token) > maxCredential || !plainHeader(p.Token):
		return badParam("token", "doesn't fit into a header")
	case p.Auth != nil && (p.Auth.Scheme == "" || strings.ContainsAny(p.Auth.Scheme, " ,") || !plainHeader(p.Auth.Scheme)):
		return badParam("authentication.scheme", "is not a scheme")
	case p.Auth != nil && (len(p.Auth.Credentials) > maxCredential || !plainHeader(p.Auth.Credentials)):
		return badParam("authentication.credentials", "don't fit into a header")
	}
	if !s.allowsHost(u.Host) && isPrivateHost(u.Hostname()) {
		return badParam("url", "names an address that is not public; the agent's operator can allow its host")
	}
	return nil
}

func plainHeader(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// allowsHost reports whether a host may be notified whatever its address is.
func (s *Server) allowsHost(host string) bool {
	u := &url.URL{Host: host}
	for _, a := range s.opt.Push.AllowHosts {
		if strings.EqualFold(a, host) || strings.EqualFold(a, u.Hostname()) || strings.EqualFold(a, "["+u.Hostname()+"]") {
			return true
		}
	}
	return false
}

// isPrivateHost reports whether a host is no public one by its name alone. What a name
// resolves to is looked at when it is dialled.
func isPrivateHost(host string) bool { return dial.Private(host) }

// placeOf is what a sealed configuration is bound to.
func placeOf(account, taskID, configID string) string {
	return account + "\x00" + taskID + "\x00" + configID
}

// setPush keeps a configuration.
func (s *Server) setPush(ctx context.Context, c *call, rec *command.PeerTaskRecord, p *proto.PushConfig, id string) error {
	if p.ID == "" {
		p.ID = id
	}
	p.TaskID, p.Tenant = proto.TaskID(rec.RemoteTaskID), ""
	b, err := json.Marshal(p)
	if err != nil {
		return badParam("url", "could not be stored")
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return badParam("url", "is not a URL")
	}
	_, err = s.runCommand(ctx, c, &command.SetPeerPush{
		PeerTaskKey: taskKey(rec.RemoteTaskID), ConfigID: p.ID, Target: u.Host, Sealed: s.seal.seal(placeOf(c.caller.Account, rec.RemoteTaskID, p.ID), b),
	})
	return err
}

func taskKey(taskID string) command.PeerTaskKey {
	return command.PeerTaskKey{NativeProtocol: Protocol, RemoteTaskID: taskID}
}

// createPush is the operation CreateTaskPushNotificationConfig.
func (s *Server) createPush(ctx context.Context, c *call, p *proto.PushConfig) (*proto.PushConfig, error) {
	if s.seal == nil {
		return nil, errorf(pushNotSupported, "this agent sends no push notifications")
	}
	rec, err := s.findTaskRecord(ctx, c, string(p.TaskID))
	if err != nil {
		return nil, err
	}
	if err := s.checkPush(p); err != nil {
		return nil, err
	}
	if err := s.setPush(ctx, c, rec, p, "push_"+random()); err != nil {
		return nil, err
	}
	s.teller.track(c.caller.Account, rec)
	return p, nil
}

// listPushes returns the push configurations of all pages of a list.
func listPushes(p *command.ListPeerPushes, do func(command.Params) (any, error)) ([]command.PeerPushRecord, error) {
	var all []command.PeerPushRecord
	p.Limit = command.MaxPage
	err := command.EachPage(p, func() (string, error) {
		list, err := channel.ResultOf[command.ListPeerPushesResult](do(p))
		if err != nil {
			return "", err
		}
		all = append(all, list.Pushes...)
		return list.NextCursor, nil
	})
	return all, err
}

// pushConfigs returns a task's configurations, without what is secret in them.
func (s *Server) pushConfigs(ctx context.Context, c *call, taskID string) ([]*proto.PushConfig, error) {
	if s.seal == nil {
		return nil, errorf(pushNotSupported, "this agent sends no push notifications")
	}
	rec, err := s.findTaskRecord(ctx, c, taskID)
	if err != nil {
		return nil, err
	}
	pushes, err := listPushes(&command.ListPeerPushes{NativeProtocol: Protocol, RemoteTaskID: rec.RemoteTaskID}, func(p command.Params) (any, error) {
		return s.runCommand(ctx, c, p)
	})
	if err != nil {
		return nil, err
	}
	out := []*proto.PushConfig{}
	for i := range pushes {
		p, err := s.unseal(ctx, &pushes[i])
		if err != nil {
			continue // sealed with a key that is gone: it can't be used either
		}
		p.Token = ""
		if p.Auth != nil {
			p.Auth = &proto.PushAuthInfo{Scheme: p.Auth.Scheme}
		}
		out = append(out, p)
	}
	return out, nil
}

// unseal opens a configuration, with the key that seals or with another one.
func (s *Server) unseal(ctx context.Context, rec *command.PeerPushRecord) (*proto.PushConfig, error) {
	place := placeOf(rec.Account, rec.RemoteTaskID, rec.ConfigID)
	b, err := s.seal.open(place, rec.Sealed)
	if err != nil && s.opt.Push.OtherKeys != nil {
		b, err = s.unsealWithOthers(ctx, place, rec.Sealed, err)
	}
	if err != nil {
		return nil, err
	}
	p := &proto.PushConfig{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("a2a: push configuration: %w", err)
	}
	return p, nil
}

func (s *Server) unsealWithOthers(ctx context.Context, place, sealed string, cause error) ([]byte, error) {
	keys, err := s.opt.Push.OtherKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		other, err := newSealer(key)
		if err != nil {
			return nil, err
		}
		if b, err := other.open(place, sealed); err == nil {
			return b, nil
		}
	}
	return nil, cause
}

// getPush is the operation GetTaskPushNotificationConfig.
func (s *Server) getPush(ctx context.Context, c *call, req *proto.GetTaskPushConfigRequest) (*proto.PushConfig, error) {
	list, err := s.pushConfigs(ctx, c, string(req.TaskID))
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.ID == req.ID {
			return p, nil
		}
	}
	f := errorf(taskNotFound, "task %s has no push notification configuration %s", req.TaskID, wire.Clip(req.ID))
	f.metadata = map[string]string{"taskId": string(req.TaskID)}
	return nil, f
}

// listPushes is the operation ListTaskPushNotificationConfigs. A task has few
// enough for one page.
func (s *Server) listPushes(ctx context.Context, c *call, req *proto.ListTaskPushConfigRequest) (*proto.ListTaskPushConfigResponse, error) {
	list, err := s.pushConfigs(ctx, c, string(req.TaskID))
	return &proto.ListTaskPushConfigResponse{Configs: list}, err
}

// deletePush is the operation DeleteTaskPushNotificationConfig. What isn't there is
// deleted already.
func (s *Server) deletePush(ctx context.Context, c *call, req *proto.DeleteTaskPushConfigRequest) (*struct{}, error) {
	if s.seal == nil {
		return nil, errorf(pushNotSupported, "this agent sends no push notifications")
	}
	if req.ID == "" {
		return nil, badParam("id", "is missing")
	}
	rec, err := s.findTaskRecord(ctx, c, string(req.TaskID))
	if err != nil {
		return nil, err
	}
	if len(req.ID) > maxID {
		return &struct{}{}, nil
	}
	_, err = s.runCommand(ctx, c, &command.RemovePeerPush{PeerTaskKey: taskKey(rec.RemoteTaskID), ConfigID: req.ID})
	if fault.KindOf(err) == fault.NotFound && err != nil {
		return nil, noTask(string(req.TaskID))
	}
	return &struct{}{}, err
}
