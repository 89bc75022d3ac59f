package channel

import (
	"context"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
	"agentd/state"
)

// statusUnknown is that of a channel which the facts call connected while its peer
// isn't here: another process may know more.
const statusUnknown = "unknown"

// listChannels lists the channels that the caller may see, in the order of their ids.
func (h *Hub) listChannels(ctx context.Context, caller command.Caller, p *command.ListChannels) (*command.ListChannelsResult, error) {
	if p.SessionID != "" {
		if err := h.m.ViewAs(ctx, caller, p.SessionID, func(*state.Session) error { return nil }); err != nil {
			return nil, err
		}
	}
	list, err := command.NewOrderedPage(&p.Page, "id", "", channelOrders, channelID)
	if err != nil {
		return nil, err
	}
	for after, more := "", true; more; {
		page, err := h.m.Channels(ctx, p.SessionID, after, command.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, x := range page {
			after = x.ID
			switch c, err := h.findVisibleChannel(ctx, caller, x.ID); {
			case err == nil:
				list.Offer(c)
			case fault.KindOf(err) != fault.NotFound:
				return nil, err
			}
		}
		more = len(page) == command.MaxPage
	}
	res := &command.ListChannelsResult{Channels: []command.ChannelRecord{}, Total: list.Total, NextCursor: list.Next()}
	for _, c := range list.Things() {
		rec, err := h.describeChannel(ctx, c, p.SessionID)
		if err != nil {
			return nil, err
		}
		res.Channels = append(res.Channels, *rec)
	}
	return res, nil
}

// channelOrders are the orders of the list of channels.
var channelOrders = command.Orders[*session.Channel]{"id": channelID}

func channelID(c *session.Channel) string { return c.ID }

// describeChannel returns the record of a channel; about is the session that was asked
// about, or nothing.
func (h *Hub) describeChannel(ctx context.Context, c *session.Channel, about string) (*command.ChannelRecord, error) {
	o := &c.Opened
	rec := &command.ChannelRecord{
		ChannelID: c.ID, Status: state.ChannelDisconnected, Transport: o.Transport, PeerRole: o.PeerRole, AccountRef: o.AccountRef,
		Capabilities: o.Capabilities, NativeProtocol: o.NativeProtocol, ResumeTokenRef: o.ResumeTokenRef,
	}
	for _, t := range o.Tools {
		rec.Tools = append(rec.Tools, t.ToolName)
	}
	if about == "" {
		about = c.Home
	}
	seen, here := h.isPresent(c.ID)
	rec.LastSeenAt = seen
	links, err := h.m.ChannelLinks(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		out := command.ChannelLink{SessionID: l.SessionID, Status: l.Status, Reason: l.Reason, Since: l.Since}
		if out.LastAcknowledged, err = h.m.ChannelCursor(ctx, c.ID, l.SessionID); err != nil {
			return nil, err
		}
		if l.SessionID == about {
			rec.LastAcknowledged = out.LastAcknowledged
		}
		if l.Status == state.ChannelConnected && !here {
			out.Status = statusUnknown
		}
		addLink(rec, out)
	}
	return rec, nil
}

// addLink puts a link into a record. A channel is connected if it is in one session.
func addLink(rec *command.ChannelRecord, l command.ChannelLink) {
	rec.Links, rec.Sessions = append(rec.Links, l), append(rec.Sessions, l.SessionID)
	switch l.Status {
	case state.ChannelDisconnected:
		if rec.LastSeenAt.Before(l.Since) {
			rec.LastSeenAt = l.Since
		}
		return
	case statusUnknown:
		if rec.Status != state.ChannelConnected {
			rec.Status = statusUnknown
		}
	default:
		rec.Status = l.Status
	}
	if rec.ConnectedAt.Before(l.Since) {
		rec.ConnectedAt = l.Since
	}
}
