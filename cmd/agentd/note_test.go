package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A note can name this machine, and nothing else.
func TestNotesThatLeadAway(t *testing.T) {
	for url, away := range map[string]bool{
		"http://127.0.0.1:8700": false, "https://127.0.0.1:8700": false, "http://[::1]:8700": false, "http://localhost:8700": false,
		"http://0.0.0.0:8700": false, "http://[::]:8700": false, // asked on loopback
		"http://192.0.2.1:8700": true, "http://10.0.0.1:8700": true, "http://169.254.169.254": true, "https://agentd.example": true,
		"http://localhost.example": true, "http://127.0.0.1@agentd.example": true, "http://[::ffff:192.0.2.1]:1": true,
		"http://127.0.0.1.example": true, "": true, "://": true, "//192.0.2.1": true,
	} {
		if got := (&serverNote{URL: url}).leadsAway(); (got != "") != away {
			t.Errorf("%q: %q", url, got)
		}
	}
}

// A socket counts if this user made it.
func TestNotesThatNameASocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := writeFile(t, dir, "file", "")
	for socket, away := range map[string]bool{path: false, file: true, filepath.Join(dir, "none"): false} {
		if got := (&serverNote{URL: "http+unix://" + socket, Socket: socket}).leadsAway(); (got != "") != away {
			t.Errorf("%s: %q", socket, got)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a socket away
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if got := (&serverNote{URL: "http+unix://" + path, Socket: path}).leadsAway(); got == "" {
		t.Error("another user's socket is believed")
	}
}
