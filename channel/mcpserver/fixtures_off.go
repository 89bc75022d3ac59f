//go:build !interopfixtures

package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fixtures are what the protocol's conformance suite expects of a server. Only builds
// with the tag interopfixtures have them.
type fixtures struct{}

type fixtureOptions struct{}

func newFixtures(context.Context, *Options) *fixtures { return nil }

func (*fixtures) wait()                           {}
func (*fixtures) capabilities(*mcp.ServerOptions) {}
func (*fixtures) register(*mcp.Server)            {}
func (*fixtures) source(string) taskSource        { return nil }
