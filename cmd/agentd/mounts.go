package main

import (
	"net/http"

	"agentd/command"
	"agentd/server"
)

// mounts are the addresses beside the wire contract: operations and the protocols
// of others, all under the server's authentication and bounds. Each protocol is an
// adapter over rt.
func (s *serving) mounts(rt command.Runtime) []server.Mount {
	_ = rt
	return []server.Mount{
		{Prefix: backupPath, Handler: http.HandlerFunc(s.serveBackup)},
		{Prefix: transferPath, Handler: http.HandlerFunc(s.serveTransfer)},
	}
}
