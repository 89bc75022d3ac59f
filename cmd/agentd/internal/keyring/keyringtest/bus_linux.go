package keyringtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/godbus/dbus/v5"
)

// Bus is a session bus.
type Bus struct {
	// Dir is a folder for sockets, with a short path; Socket is the one of the bus.
	Dir, Socket string
	stop        func()
}

// Address is the value of DBUS_SESSION_BUS_ADDRESS.
func (b *Bus) Address() string { return "unix:path=" + b.Socket }

// Getenv is an environment that names the bus.
func (b *Bus) Getenv(name string) string {
	if name == "DBUS_SESSION_BUS_ADDRESS" {
		return b.Address()
	}
	return ""
}

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// StartBus starts a bus, or skips the test if there is no dbus-daemon.
func StartBus(tb testing.TB) *Bus {
	tb.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		tb.Skip("skipped: there is no dbus-daemon; scripts/keyring.sh installs it")
	}
	dir, err := os.MkdirTemp("/tmp", "kr") //nolint:usetesting // a socket's path is short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &Bus{Dir: dir, Socket: filepath.Join(dir, "bus")}
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, b.Socket), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), program, "--config-file="+config, "--nofork", "--nopidfile", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := false
	b.stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	tb.Cleanup(b.stop)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		tb.Fatalf("dbus-daemon said no address: %v", err)
	}
	return b
}

// Stop ends the bus before the test does.
func (b *Bus) Stop() { b.stop() }

// Connect returns a connection to the bus.
func (b *Bus) Connect(tb testing.TB) *dbus.Conn {
	tb.Helper()
	conn, err := dbus.Connect(b.Address())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}
