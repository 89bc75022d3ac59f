package command

// channelDefs are the catalogue's entries for channels.
func channelDefs() []Def {
	return []Def{
		{
			Name: "connect_channel", Noun: "channel", Form: formOf[ConnectChannel, ConnectChannelResult](),
			Mutates: true, ShowsSecret: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Opens a channel for a remote peer.",
			Doc:     "The resume token is not stored, only its hash is; it comes back with a repetition of the same command. The peer follows its sessions over the ordinary streams with channelId; a stream that closes, or silence, disconnects the channel, and what it asked for goes on. Tools are offered to the model in the sessions that the channel follows while it is connected; a call is an action of type client_tool, answered with respond_action and decision submit.",
			Example: `{"transport":"websocket","peerRole":"client","sessionId":"sess_docs"}`,
		},
		{
			Name: "reconnect_channel", Noun: "channel", Form: formOf[ReconnectChannel, ReconnectChannelResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Brings a peer back.",
			Doc:     "A wrong token is forbidden, and so is another role or account than that which opened the channel. The token stays the same. A session that the channel doesn't follow yet is added, with a cursor of its own. A cursor past the end, or one that retention removed, is answered with recoveryMode snapshot_repair.",
			Example: `{"channelId":"chan_1","resumeToken":"the token of connect_channel","lastSequence":41}`,
		},
		{
			Name: "ack_events", Noun: "channel", Form: formOf[AckEvents, ChannelResult](),
			Mutates: true, EndsWork: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Says how far a peer has got.",
			Doc:     "An acknowledgement never goes back; one past the end is a conflict. It is durable, and counts as a sign of life. The first of each connection is a fact (channel.message); the others show in the fact that ends the connection, so that acknowledging doesn't make events.",
			Example: `{"channelId":"chan_1","sequence":42}`,
		},
		{
			Name: "send_channel_message", Noun: "channel", Form: formOf[SendChannelMessage, SendChannelMessageResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.2",
			Means:   "Records a message of a peer that is not a turn.",
			Doc:     "It becomes the fact channel.message in a session that the channel is connected in, and starts no work; that is what submit_turn is for. A long body is kept behind messageRef.",
			Example: `{"channelId":"chan_1","kind":"status","text":"the build machine is back"}`,
		},
		{
			Name: "disconnect_channel", Noun: "channel", Form: formOf[DisconnectChannel, ChannelResult](),
			Mutates: true, EndsWork: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Closes a channel.",
			Doc:     "What the peer asked for continues; calls of its own tools are lost. The peer may come back with reconnect_channel.",
			Example: `{"channelId":"chan_1","reason":"the laptop is closed"}`,
		},
		{
			Name: "list_channels", Noun: "channel", Form: formOf[ListChannels, ListChannelsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists channels.",
			Doc:     "Disconnected channels can be resumed and are listed too.",
			Example: `{"sessionId":"sess_docs"}`,
		},
	}
}
