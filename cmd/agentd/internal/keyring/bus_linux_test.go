package keyring

import (
	"slices"
	"testing"
)

func TestBusSockets(t *testing.T) {
	usual := runtimeFiles(func(string) string { return "" }, "bus")[0]
	for _, tt := range []struct {
		address, runtime string
		want             []string
	}{
		{"", "", []string{usual}},
		{"", "/run/mine", []string{"/run/mine/bus", usual}},
		{"", "relative", []string{usual}},
		{"unix:path=/a/b", "/run/mine", []string{"/a/b"}},
		{"unix:path=/with%20space%2c,guid=12", "", []string{"/with space,"}},
		{"unix:abstract=/tmp/dbus-x,guid=12", "", []string{"@/tmp/dbus-x"}},
		{"unix:runtime=yes", "/run/mine", []string{"/run/mine/bus"}},
		{"tcp:host=h,port=1;unix:path=/a", "", []string{"/a"}},
		{"unix:path=/a;unix:path=/b", "", []string{"/a", "/b"}},
		{"autolaunch:", "/run/mine", nil},
		{"unix:path=%zz", "", nil},
		{"unix:", "", nil},
	} {
		env := map[string]string{"DBUS_SESSION_BUS_ADDRESS": tt.address, "XDG_RUNTIME_DIR": tt.runtime}
		got, err := busSockets(func(name string) string { return env[name] })
		if !slices.Equal(got, tt.want) || (err != nil) != (tt.want == nil) {
			t.Errorf("%q, %q: %v, %v", tt.address, tt.runtime, got, err)
		}
	}
}
