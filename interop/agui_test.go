package interop_test

import "testing"

func TestAGUIWithTheOfficialClient(t *testing.T) {
	k := newProtoKit(t, "holding the AG-UI endpoint against the official client")
	dir := acpFolder(t)
	s := k.serve(t, dir)
	k.node(t, "agui.mjs", dir, s.URL, s.Token, k.observer(t, dir))
}
