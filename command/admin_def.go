package command

import "strings"

// adminDefs are the catalogue's entries for administration.
func adminDefs() []Def {
	return []Def{
		{
			Name: "list_tokens", Noun: "administration", Form: formOf[ListTokens, ListTokensResult](),
			Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Lists tokens, without their secrets.",
			Doc:     "The admin token of the data directory or of AGENTD_TOKEN is not listed.",
			Example: `{}`,
		},
		{
			Name: "create_token", Noun: "administration", Form: formOf[CreateToken, NewTokenResult](),
			Mutates: true, Destructive: true, ShowsSecret: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Makes a token.",
			Doc:     "The answer shows the token, once; only its hash is kept. A repeated call with the same idempotency key returns the record without the token: rotate it if it was lost. The fact is runtime.changed, in the runtime's own session. Over PostgreSQL all nodes accept it within a second; without it, the server that answers and those that share its file do.",
			Example: `{"name":"laptop","role":"client","account":"alice","expiresInMs":2592000000}`,
		},
		{
			Name: "rotate_token", Noun: "administration", Form: formOf[RotateToken, NewTokenResult](),
			Mutates: true, Destructive: true, ShowsSecret: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Replaces the secret of a token.",
			Doc:     "The old secret is refused from then on, also in open streams. A token that ended is a conflict.",
			Example: `{"tokenId":"laptop"}`,
		},
		{
			Name: "revoke_token", Noun: "administration", Form: formOf[RevokeToken, TokenRecord](),
			Mutates: true, EndsWork: true, Destructive: true, Repeatable: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Ends a token, also in open streams.",
			Doc:     "Revoking one twice is fine.",
			Example: `{"tokenId":"laptop"}`,
		},
		{
			Name: "list_accounts", Noun: "administration", Form: formOf[ListAccounts, ListAccountsResult](),
			Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Lists accounts with what they use.",
			Doc:     "get_quotas has the limits.",
			Example: `{}`,
		},
		{
			Name: "set_quotas", Noun: "administration", Form: formOf[SetQuotas, GetQuotasResult](),
			Mutates: true, Repeatable: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Changes the limits of an account, at once and for good.",
			Doc:     "What was set wins over the configuration, also after a restart and on all nodes, until reset. What is in use already stays, also above a limit. The fact is runtime.changed. The answer is that of get_quotas for the account.",
			Example: `{"account":"acme","limits":{"sessions":100,"storedBytes":1073741824}}`,
		},
		{
			Name: "get_configuration", Noun: "administration", Form: formOf[GetConfiguration, GetConfigurationResult](),
			Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Returns the settings that are in effect, each with the origin of its value.",
			Doc:     "Secrets are not shown, nor passwords and query values of addresses.",
			Example: `{}`,
		},
		{
			Name: "get_retention", Noun: "administration", Form: formOf[GetRetention, GetRetentionResult](),
			Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Says what is kept for how long, and how far a run is.",
			Doc:     "The counts are of this process.",
			Example: `{}`,
		},
		{
			Name: "run_retention", Noun: "administration", Form: formOf[RunRetention, RetentionRun](),
			Mutates: true, Destructive: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Removes the events of old sessions now.",
			Doc:     "It returns at once and works on in the background; get_retention shows how far it is. While one runs another is a conflict. Without a configured time olderThanMs is needed.",
			Example: `{"olderThanMs":31536000000,"dryRun":true}`,
		},
		{
			Name: "read_audit", Noun: "administration", Form: formOf[ReadAudit, ReadAuditResult](),
			Scope: RoleObserver, Available: true, Since: "0.2",
			Means:   "Reads what an auditor looks at, over all sessions that the caller may see.",
			Doc:     "A program that copies it elsewhere keeps the cursor of each page, and passes it to get the next one: nothing is missed and nothing comes twice, over restarts and on every node. Without types: " + strings.Join(AuditTypes(), ", ") + ".",
			Example: `{"limit":200}`,
		},
	}
}

// nodeDefs are the catalogue's entries for the nodes of a database.
func nodeDefs() []Def {
	return []Def{
		{
			Name: "drain_node", Noun: "administration", Form: formOf[DrainNode, DrainNodeResult](),
			Mutates: true, Repeatable: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Has a node take no new work and hand over what it has, or ends that.",
			Doc:     "It returns at once; list_nodes shows how far it is. Each session moves when the step that it is in has ended. The node answers on and passes commands on to the others, and /readyz says 503. Sessions whose files only that node has stay where they are. A restart ends it, and so does end.",
			Example: `{"nodeId":"node-a"}`,
		},
		{
			Name: "forget_node", Noun: "administration", Form: formOf[ForgetNode, ForgetNodeResult](),
			Mutates: true, Destructive: true, Repeatable: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Takes a node that is gone for good off the list of nodes.",
			Doc:     "A node whose lease holds is a conflict. The answer says which sessions have their files there: they stay blocked and say so until the node is back under its name, or until move_session gives them another place. preview changes nothing, and says the same of a node that is alive.",
			Example: `{"nodeId":"node-a","preview":true}`,
		},
		{
			Name: "move_session", Noun: "administration", Form: formOf[MoveSession, MoveSessionResult](),
			Mutates: true, Destructive: true, Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Gives a session another place: a node, a folder there, or both.",
			Doc:     "No file is copied: what matters is brought along first. The session goes on at that node, in the folder of the same path, or in root. While a live node that isn't drained has its files that is a conflict, and so is another folder on the same node while something of the session runs. Threads that waited for the old place go on. What earlier turns changed can be taken back only as far as the very same files are in the new place; of the others rollback and diffs say that they can't be seen.",
			Example: `{"sessionId":"sess_a","nodeId":"node-b"}`,
		},
		{
			Name: "list_nodes", Noun: "administration", Form: formOf[ListNodes, ListNodesResult](),
			Scope: RoleAdmin, Available: true, Since: "0.2",
			Means:   "Lists the nodes that share the store.",
			Doc:     "A store that only one process can open has one node.",
			Example: `{}`,
		},
	}
}
