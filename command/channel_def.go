package command

// channelDefs are the catalogue's entries for channels.
func channelDefs() []Def {
	return []Def{
		{
			Name: "connect_channel", Noun: "channel", New: func() Params { return &ConnectChannel{} }, Result: (*ConnectChannelResult)(nil),
			Mutates: true, Scope: RoleClient, Since: "0.1",
			Means:   "Opens a channel for a remote peer.",
			Doc:     "The resume token is shown once and kept as a hash.",
			Example: `{"transport":"websocket","peerRole":"client","sessionId":"sess_docs"}`,
		},
		{
			Name: "reconnect_channel", Noun: "channel", New: func() Params { return &ReconnectChannel{} }, Result: (*ReconnectChannelResult)(nil),
			Mutates: true, Scope: RoleClient, Since: "0.1",
			Means:   "Brings a peer back.",
			Doc:     "A wrong token is forbidden. A cursor past the end, or one that retention removed, is answered with recoveryMode snapshot_repair.",
			Example: `{"channelId":"chan_1","resumeToken":"the token of connect_channel","lastSequence":41}`,
		},
		{
			Name: "ack_events", Noun: "channel", New: func() Params { return &AckEvents{} }, Result: (*ChannelResult)(nil),
			Mutates: true, Scope: RoleClient, Since: "0.1",
			Means:   "Says how far a peer has got.",
			Doc:     "An acknowledgement never goes back; one past the end is a conflict.",
			Example: `{"channelId":"chan_1","sequence":42}`,
		},
		{
			Name: "disconnect_channel", Noun: "channel", New: func() Params { return &DisconnectChannel{} }, Result: (*ChannelResult)(nil),
			Mutates: true, Scope: RoleClient, Since: "0.1",
			Means:   "Closes a channel.",
			Doc:     "What the peer asked for goes on.",
			Example: `{"channelId":"chan_1","reason":"the laptop is closed"}`,
		},
		{
			Name: "list_channels", Noun: "channel", New: func() Params { return &ListChannels{} }, Result: (*ListChannelsResult)(nil),
			Scope: RoleObserver, Since: "0.1",
			Means:   "Lists channels.",
			Doc:     "Disconnected channels that can still be resumed are listed too.",
			Example: `{"sessionId":"sess_docs"}`,
		},
	}
}
