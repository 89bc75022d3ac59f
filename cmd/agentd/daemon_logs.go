package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/rundir"
)

func (a *app) daemonLogs() *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of your server",
		Long: `Shows the last lines of your server's log, which is in its data directory
(server.log; the one before is kept as server.log.1 once it has become large).
--json prints them as they stand there.

Exit codes: 0 done, 1 there is no log, 2 usage.`,
		Example: "  agentd daemon logs\n  agentd daemon logs --lines 500\n  agentd daemon logs --follow\n  agentd daemon logs --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.ownConfig(cmd)
			if err != nil {
				return err
			}
			if lines < 0 {
				return usagef("--lines must not be negative")
			}
			return a.showLog(cmd.Context(), c, lines, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more, until it is interrupted")
	cmd.Flags().IntVarP(&lines, "lines", "n", 50, "how many lines")
	return a.settings(cmd)
}

// maxTail bounds how much of a log is read for its last lines.
const maxTail = 4 << 20

func (a *app) showLog(ctx context.Context, c *config.Config, lines int, follow bool) error {
	path := filepath.Join(c.Local(), logFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no log at %s: your server was never started in the background", path)
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	from := max(0, info.Size()-maxTail)
	tail := make([]byte, info.Size()-from)
	n, err := f.ReadAt(tail, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	to := &logPrinter{Ink: a.ink(a.out), to: a.out, raw: a.json}
	if _, err = to.Write(lastLines(tail[:n], lines)); err == nil && follow {
		err = followLog(ctx, path, f, from+int64(n), to)
	}
	return errors.Join(err, to.writeUnended())
}

// followLog writes what is added to a log, and goes on with the next one when a server
// has begun it.
func followLog(ctx context.Context, path string, f *os.File, at int64, to io.Writer) error {
	defer func() { _ = f.Close() }() // it was only read
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
		// What is in place is opened first, so that the end of the log before it is read, too.
		next, err := os.Open(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		n, err := io.Copy(to, io.NewSectionReader(f, at, math.MaxInt64-at))
		at += n
		if next != nil && (err != nil || sameFile(f, next)) {
			_ = next.Close() // it was only read
		} else if next != nil {
			_ = f.Close() // it was only read
			f, at = next, 0
		}
		if err != nil {
			return err
		}
	}
}

// sameFile reports whether two open files are one.
func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// lastLines returns the end of a text.
func lastLines(text []byte, lines int) []byte {
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	if lines == 0 {
		return nil
	}
	for range lines {
		if at = bytes.LastIndexByte(text[:at], '\n'); at < 0 {
			return text
		}
	}
	return text[at+1:]
}

func (a *app) daemonUnit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unit",
		Short: "Print units for systemd that start your server",
		Long: `Prints a socket unit and a service unit for the systemd of your user. With them
systemd listens on the socket and starts your server when a command first uses
it, with the environment of your user's systemd. Without them commands start it
themselves.

Exit codes: 0 done, 2 usage.`,
		Example: "  agentd daemon unit",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.ownConfig(cmd)
			if err != nil {
				return err
			}
			socket, err := rundir.Socket(a.getenv, dataName(c))
			if err != nil {
				return err
			}
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			if dir := a.env["XDG_RUNTIME_DIR"]; dir != "" && filepath.Dir(filepath.Dir(socket)) == filepath.Clean(dir) {
				socket = "%t/agentd/" + filepath.Base(socket)
			}
			units := map[string]string{"agentd.socket": fmt.Sprintf(socketUnit, socket), "agentd.service": fmt.Sprintf(serviceUnit, exe)}
			return a.print(map[string]any{"units": units}, func(p *printer) {
				p.linef("# ~/.config/systemd/user/agentd.socket\n%s", units["agentd.socket"])
				p.linef("# ~/.config/systemd/user/agentd.service\n%s", units["agentd.service"])
				p.linef("# systemctl --user daemon-reload && systemctl --user enable --now agentd.socket")
			})
		},
	}
	return a.settings(cmd)
}

const (
	socketUnit = `[Unit]
Description=Socket of your agentd server

[Socket]
ListenStream=%s
SocketMode=0600
DirectoryMode=0700

[Install]
WantedBy=sockets.target
`
	serviceUnit = `[Unit]
Description=Your agentd server

[Service]
ExecStart=%s daemon run
KillMode=mixed
TimeoutStopSec=20
`
)
