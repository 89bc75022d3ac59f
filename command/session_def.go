package command

// sessionDefs are the catalogue's entries for sessions.
func sessionDefs() []Def {
	return []Def{
		{
			Name: "create_session", Noun: "session", Form: formOf[CreateSession, CreateSessionResult](),
			Mutates: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Opens a session with a main thread.",
			Doc:     "With a sessionId that the caller gives, the same command again returns the first result; another content under the same id is a conflict.",
			Example: `{"title":"Tidy the docs","workspace":{"root":"docs"},"permissionMode":"auto"}`,
		},
		{
			Name: "list_sessions", Noun: "session", Form: formOf[ListSessions, ListSessionsResult](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Lists sessions, newest first.",
			Doc:     "Only sessions of the caller's account are listed and counted; an admin sees every account's. An entry is as fresh as the session's last finished turn. Archived sessions are left out unless archived is true. A cursor goes on behind the last session of its page, also if that was deleted; a session that moves in the order meanwhile, because what it is sorted by changed, may be seen twice or not at all.",
			Example: `{"limit":20,"query":"docs","tags":["release"],"sort":"updated"}`,
		},
		{
			Name: "update_session", Noun: "session", Form: formOf[UpdateSession, UpdateSessionResult](),
			Mutates: true, Repeatable: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Renames, tags, pins or archives a session, or changes its metadata.",
			Doc:     "What is absent stays as it is. With tags all tags are replaced; addTags and removeTags change single ones, and leave those that another caller changes at the same time. The change is the fact session.updated; if nothing changes there is none.",
			Example: `{"sessionId":"sess_docs","title":"Release notes","tags":["release"],"pinned":true}`,
		},
		{
			Name: "get_session", Noun: "session", Form: formOf[GetSession, SessionRead](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Returns the session snapshot and a window of its history.",
			Doc:     "The snapshot is the fold of the session's facts. history holds the newest events, oldest first; older ones come by passing history.cursor as before. A limit of 0 returns the snapshot alone. With atSequence everything is as it was after that event; a sequence that is past the end, or that retention removed, is refused with those that there are.",
			Example: `{"sessionId":"sess_docs","limit":50}`,
		},
		{
			Name: "delete_session", Noun: "session", Form: formOf[DeleteSession, DeleteSessionResult](),
			Mutates: true, EndsWork: true, Destructive: true, Scope: RoleClient, Available: true, Since: "0.1",
			Means:   "Deletes a session that is at rest: its events, outputs and index entries.",
			Doc:     "A session with unfinished work or a connected channel is refused, with what to do first. Afterwards the session is not found, and its id is not used again. Sessions that were forked from it go on: the events that they continue from stay, but can no longer be read under the deleted session. The runtime's own session has the fact session.deleted.",
			Example: `{"sessionId":"sess_docs","reason":"no longer needed"}`,
		},
	}
}
