package interop_test

import "testing"

func TestFactsAreCloudEvents(t *testing.T) {
	k := newProtoKit(t, "holding facts against the CloudEvents library")
	dir := acpFolder(t)
	s := serve(t, dir, nil)
	k.node(t, "cloudevents.mjs", dir, s.url, s.token)
}
