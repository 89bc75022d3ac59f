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
			Doc:     "Only sessions of the caller's account are listed; an admin sees every account's. An entry is as fresh as the session's last finished turn.",
			Example: `{"limit":20,"query":"docs"}`,
		},
		{
			Name: "get_session", Noun: "session", Form: formOf[GetSession, SessionRead](),
			Scope: RoleObserver, Available: true, Since: "0.1",
			Means:   "Returns the session snapshot and a window of its history.",
			Doc:     "The snapshot is the fold of the session's facts. history holds the newest events, oldest first; older ones come by passing history.cursor as before. A limit of 0 returns the snapshot alone.",
			Example: `{"sessionId":"sess_docs","limit":50}`,
		},
	}
}
