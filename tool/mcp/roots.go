//nolint:staticcheck // The newer revision deprecates roots; servers of the older one ask for them.
package mcp

import (
	"net/url"
	"path/filepath"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// rootList answers a server that asks for roots.
type rootList []*sdk.Root

// rootsOf returns the workspace as the only root; none if it isn't known.
func rootsOf(workspace string) rootList {
	if workspace == "" {
		return nil
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(workspace)}
	return rootList{{URI: u.String(), Name: filepath.Base(workspace)}}
}

// capabilities tells the server that there are roots, if there are.
func (l rootList) capabilities() *sdk.ClientCapabilities {
	caps := &sdk.ClientCapabilities{}
	if len(l) > 0 {
		caps.RootsV2 = &sdk.RootCapabilities{}
	}
	return caps
}

// installRoots hands the roots to the SDK's client, which answers requests for them.
func (l rootList) installRoots(client *sdk.Client) { client.AddRoots(l...) }

// answer returns the response to a request for input, if it is for the roots.
func (l rootList) answer(request sdk.InputRequest) (sdk.InputResponse, bool) {
	if _, ok := request.(*sdk.ListRootsParams); !ok {
		return nil, false
	}
	return &sdk.ListRootsResult{Roots: append([]*sdk.Root{}, l...)}, true
}

// requestPurpose names what a request for input is for.
func requestPurpose(request sdk.InputRequest) string {
	switch request.(type) {
	case *sdk.ElicitParams:
		return "a person's input"
	case *sdk.CreateMessageParams, *sdk.CreateMessageWithToolsParams:
		return "an answer of a model"
	default:
		return "something unknown"
	}
}
