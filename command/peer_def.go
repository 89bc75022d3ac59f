package command

// peerDefs are the catalogue's entries for the tasks of peers.
func peerDefs() []Def {
	return []Def{
		{
			Name: "get_peer_task", Noun: "peer", Form: formOf[GetPeerTask, PeerTaskRecord](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Returns the local task behind a peer's task.",
			Doc:     "Only the caller's own account is looked at, also for an admin.",
			Example: `{"nativeProtocol":"a2a","remoteTaskId":"5f0e"}`,
		},
		{
			Name: "list_peer_tasks", Noun: "peer", Form: formOf[ListPeerTasks, ListPeerTasksResult](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Lists the tasks of peers.",
			Doc:     "Those whose status changed last come first. Without all, only the caller's own account is looked at, also for an admin.",
			Example: `{"nativeProtocol":"a2a","status":["running"],"limit":10}`,
		},
		{
			Name: "settle_peer_task", Noun: "peer", Form: formOf[SettlePeerTask, PeerTaskRecord](),
			Mutates: true, EndsWork: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Records that the end of a peer's task was reconciled.",
			Doc:     "The artifacts become edges of the local task. A task that hasn't ended is a conflict; a second time changes nothing.",
			Example: `{"nativeProtocol":"a2a","remoteTaskId":"5f0e","remoteStatus":"TASK_STATE_COMPLETED","artifacts":[{"artifactId":"artifact_1","mediaType":"text/plain"}]}`,
		},
		{
			Name: "set_peer_push", Noun: "peer", Form: formOf[SetPeerPush, PeerPushResult](),
			Mutates: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Configures push notifications about a peer's task.",
			Doc:     "The configuration is sealed by the protocol's adapter, because it holds credentials; the same id again replaces it. A task takes a hundred of them.",
			Example: `{"nativeProtocol":"a2a","remoteTaskId":"5f0e","configId":"hook","target":"peer.example","sealed":"bm9uZQ=="}`,
		},
		{
			Name: "remove_peer_push", Noun: "peer", Form: formOf[RemovePeerPush, PeerPushResult](),
			Mutates: true, EndsWork: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Removes push notifications about a peer's task.",
			Doc:     "Removing one that doesn't exist is not an error.",
			Example: `{"nativeProtocol":"a2a","remoteTaskId":"5f0e","configId":"hook"}`,
		},
		{
			Name: "report_peer_push", Noun: "peer", Form: formOf[ReportPeerPush, PeerPushResult](),
			Mutates: true, EndsWork: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Records what came of telling a peer.",
			Doc:     "A report about a removed configuration changes nothing.",
			Example: `{"nativeProtocol":"a2a","remoteTaskId":"5f0e","configId":"hook","outcome":"delivered","through":42,"final":true}`,
		},
		{
			Name: "list_peer_pushes", Noun: "peer", Form: formOf[ListPeerPushes, ListPeerPushesResult](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Lists the push configurations of peers' tasks.",
			Doc:     "Without all, only the caller's own account is looked at, also for an admin.",
			Example: `{"nativeProtocol":"a2a","unfinished":true}`,
		},
	}
}
