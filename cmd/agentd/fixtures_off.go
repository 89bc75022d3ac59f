//go:build !interopfixtures

package main

import (
	"github.com/spf13/cobra"

	"agentd/channel/a2a"
	"agentd/channel/mcpserver"
	"agentd/loop"
)

// fixtureFlags are what the conformance suites of protocols expect of a program under
// test. Only builds with the tag interopfixtures have it.
type fixtureFlags struct{}

func (*fixtureFlags) addFlag(*cobra.Command)      {}
func (*fixtureFlags) addToA2A(*a2a.Options)       {}
func (*fixtureFlags) addToMCP(*mcpserver.Options) {}
func (*fixtureFlags) addModel(*loop.Options)      {}
