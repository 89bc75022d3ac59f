package interop_test

import "testing"

func TestAGUIWithTheOfficialClient(t *testing.T) {
	k := newProtoKit(t, "holding the AG-UI endpoint against the official client")
	dir := acpFolder(t)
	s := serve(t, dir, nil)
	k.node(t, "agui.mjs", dir, s.url, s.token, k.observer(t, dir))
}
