//go:build !interopfixtures

package a2a

import proto "github.com/a2aproject/a2a-go/v2/a2a"

// fixtureOptions are behaviours that the protocol's test kit expects of an agent under
// test. Only builds with the tag interopfixtures have them.
type fixtureOptions struct{}

func (fixtureOptions) isFixture(string) bool                                { return false }
func (fixtureOptions) fixtureMark(string) string                            { return "" }
func (fixtureOptions) fixtureMessage(*proto.Message, string) *proto.Message { return nil }
func (fixtureOptions) isFixtureAnswer(string) bool                          { return false }
func (fixtureOptions) fixtureParts(string) proto.ContentParts               { return nil }
