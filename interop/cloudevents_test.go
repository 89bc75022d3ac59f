package interop_test

import "testing"

func TestFactsAreCloudEvents(t *testing.T) {
	k := newProtoKit(t, "holding facts against the CloudEvents library")
	dir := acpFolder(t)
	s := k.serve(t, dir)
	k.node(t, "cloudevents.mjs", dir, s.URL, s.Token)
}
