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
	mounts := []server.Mount{
		{Prefix: backupPath, Handler: http.HandlerFunc(s.serveBackup)},
		{Prefix: transferPath, Spools: true, Handler: http.HandlerFunc(s.serveTransfer)},
		{Prefix: trimPath, Handler: http.HandlerFunc(s.serveTrim)},
		s.mcpMount(rt),
	}
	mounts = append(mounts, s.aguiMount(rt), s.pushMount())
	mounts = append(mounts, s.openaiMounts(rt)...)
	return append(mounts, s.a2aMounts(rt)...)
}
