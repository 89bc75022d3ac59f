package command

// peerWorkDefs are the catalogue's entries for work that is given to peers.
func peerWorkDefs() []Def {
	return []Def{
		{
			Name: "get_peer_work", Noun: "peer", Form: formOf[GetPeerWork, PeerWork](),
			Scope: RoleObserver, Since: "0.1", Available: true,
			Means:   "Returns what is known of a task that is delegated to a peer.",
			Doc:     "It is for the client of the peer: what to send, whether it was sent, the task's status there, which answer to pass on.",
			Example: `{"taskId":"task_review"}`,
		},
		{
			Name: "link_peer_task", Noun: "peer", Form: formOf[LinkPeerTask, TaskResult](),
			Mutates: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Joins an attempt at a task to a peer's task.",
			Doc:     "Without remoteTaskId it records that the message is about to be sent, so that after a crash it isn't sent again unchecked. Repeating it changes nothing.",
			Example: `{"taskId":"task_review","runId":"run_1","channelId":"chan_peer","nativeProtocol":"a2a","remoteMessageId":"agentd-run_1","remoteTaskId":"5f0e","deliveryMechanism":"streaming"}`,
		},
		{
			Name: "update_peer_task", Noun: "peer", Form: formOf[UpdatePeerTask, TaskResult](),
			Mutates: true, EndsWork: true, Scope: RoleClient, Since: "0.1", Available: true,
			Means:   "Records how a delegated task stands at the peer.",
			Doc:     "The local task follows: it waits for an input or a resource, continues, completes, fails, is cancelled or lost. Completed means that everything was fetched; until then it is completed_unreconciled. What is known already changes nothing.",
			Example: `{"taskId":"task_review","runId":"run_1","channelId":"chan_peer","remoteTaskId":"5f0e","status":"running","remoteStatus":"TASK_STATE_WORKING"}`,
		},
	}
}
