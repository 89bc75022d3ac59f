package stage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestSpecSurvivesTheSocket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Spec
		for _, b := range []*bool{&s.TTY, &s.Probe, &s.MountNS, &s.PidNS, &s.NetNS, &s.ReadOnly, &s.Dev, &s.Proc, &s.Loopback, &s.NoNewPrivs, &s.DropCaps, &s.KeepCover, &s.KeepFiles} {
			*b = rapid.Bool().Draw(t, "flag")
		}
		for _, n := range []*uint64{&s.PrivateBytes, &s.PidMax, &s.ProxyPort, &s.Tasks, &s.LandlockFS, &s.LandlockNet, &s.LandlockScoped, &s.Supervise} {
			*n = rapid.Uint64().Draw(t, "number")
		}
		for _, l := range []*[]string{&s.Argv, &s.Env, &s.Private, &s.Pinned, &s.Protected} {
			*l = rapid.SliceOf(rapid.String()).Draw(t, "list")
		}
		s.Path, s.Dir = rapid.String().Draw(t, "path"), rapid.String().Draw(t, "dir")
		file := func() File {
			return File{Path: rapid.String().Draw(t, "file"), Dev: rapid.Uint64().Draw(t, "dev"), Ino: rapid.Uint64().Draw(t, "ino")}
		}
		s.Keep = []Tree{{File: file(), ReadOnly: rapid.Bool().Draw(t, "ro")}}
		s.Hidden = []File{file(), file()}
		s.Limits = []Limit{{Resource: rapid.Uint64().Draw(t, "resource"), Value: rapid.Uint64().Draw(t, "value")}}
		s.Rules = []Rule{{Path: rapid.String().Draw(t, "rule"), Access: rapid.Uint64().Draw(t, "access")}}
		s.Seccomp = rapid.SliceOf(rapid.Byte()).Draw(t, "seccomp")
		got, err := DecodeSpec(EncodeSpec(&s))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&s, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestReportsSurviveTheSocket(t *testing.T) {
	exited := Exited{WaitStatus: 1 << 8, CPUMicros: 2, MaxRSSKiB: 3}
	if got, err := DecodeExited(EncodeExited(exited)); err != nil || got != exited {
		t.Errorf("%+v, %v", got, err)
	}
	failed := []Failed{{Step: "mount", Errno: 13}, {Step: "b", Errno: 1}}
	if got, err := DecodeFailed(EncodeFailed(failed)); err != nil || !cmp.Equal(got, failed) {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzDecodeSpec holds the decoder to this: nothing that comes over the socket
// makes it panic or allocate without bound.
func FuzzDecodeSpec(f *testing.F) {
	f.Add(EncodeSpec(&Spec{Argv: []string{"a"}}))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSpec(b)
		if err == nil && len(EncodeSpec(s)) != len(b) {
			t.Errorf("%d bytes became %d", len(b), len(EncodeSpec(s)))
		}
	})
}
