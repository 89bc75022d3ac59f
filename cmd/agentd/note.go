package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/datadir"
	"agentd/cmd/agentd/internal/terminal"
)

// noteFile says, in the directory of this machine, where the server listens.
const noteFile = "server.json"

// serverNote is that file's content. It has mode 0600: the token lets anyone who
// can read the data directory talk to the server that holds it.
type serverNote struct {
	URL    string `json:"url"`
	Socket string `json:"socket,omitempty"`
	PID    int    `json:"pid"`
	Token  string `json:"token"`
	// CertSHA256 is the sum of the server's certificate, if it speaks TLS.
	CertSHA256 string    `json:"certSha256,omitempty"`
	Data       string    `json:"data"`
	StartedAt  time.Time `json:"startedAt"`
	// Background says that a command started the server, so that commands may replace
	// it; With is what it was started with.
	Background bool         `json:"background,omitempty"`
	With       *startedWith `json:"with,omitempty"`
	// Managed says that a service manager started it.
	Managed bool `json:"managed,omitempty"`
}

func newServerNote(at net.Addr, c *config.Config, token string) *serverNote {
	n := &serverNote{PID: os.Getpid(), Token: token, StartedAt: time.Now().UTC().Truncate(time.Second), Data: dataName(c)}
	scheme := "http"
	if cert, _ := certificateFiles(c); cert != "" {
		scheme = "https"
	}
	if c.Socket != "" {
		n.Socket, n.URL = absolute(c.Socket), scheme+"+unix://"+absolute(c.Socket)
		return n
	}
	n.URL = scheme + "://" + at.String()
	return n
}

// base is where the commands of this machine reach the server. One that listens on
// all addresses has none of them as its name, but is on loopback, too.
func (n *serverNote) base() string {
	u, err := url.Parse(n.URL)
	if err != nil {
		return n.URL
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsUnspecified() {
		return n.URL
	}
	u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	return u.String()
}

// dataName names the data without secrets, the same for every process that means
// the same data.
func dataName(c *config.Config) string {
	if c.Database() {
		return fmt.Sprint(redacted(c.Data))
	}
	return absolute(c.Data)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// write puts the note in place, whole or not at all.
func (n *serverNote) write(dir string) error {
	data, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return fmt.Errorf("note about the server: %w", err)
	}
	// CreateTemp makes files with mode 0600.
	f, err := os.CreateTemp(dir, ".server.*")
	if err != nil {
		return fmt.Errorf("note about the server: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, noteFile))
	}
	if err != nil {
		return fmt.Errorf("note about the server: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// readNote returns the note in a directory, or nil if there is none.
func readNote(dir string) (*serverNote, error) {
	data, err := os.ReadFile(filepath.Join(dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // that there is no server is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("note about the server: %w", err)
	}
	n := new(serverNote)
	if err := json.Unmarshal(data, n); err != nil {
		return nil, fmt.Errorf("note about the server: %s: %w", filepath.Join(dir, noteFile), err)
	}
	return n, nil
}

// trustedNote is readNote for those who go where the note sends them, with what they
// have to say. A file must not be able to send them to another machine.
func trustedNote(dir string) (*serverNote, error) {
	n, err := readNote(dir)
	if err != nil || n == nil {
		return nil, err
	}
	if reason := n.leadsAway(); reason != "" {
		return nil, fmt.Errorf("%s %s, so nothing is sent there; to use that server name it with --server URL, and its token in AGENTD_TOKEN", filepath.Join(dir, noteFile), reason)
	}
	return n, nil
}

// leadsAway says why the note's address isn't one of this machine's own; empty if it
// is.
func (n *serverNote) leadsAway() string {
	if n.Socket == "" {
		if !loopbackURL(n.base()) {
			return fmt.Sprintf("names %s, which is not a loopback address", terminal.Plain(n.URL))
		}
		return ""
	}
	info, err := os.Lstat(n.Socket)
	if err == nil && (info.Mode()&fs.ModeSocket == 0 || !datadir.Mine(info)) {
		return fmt.Sprintf("names the socket %s, which belongs to another user", terminal.Plain(n.Socket))
	}
	return "" // where there is none, no one answers
}

// remove takes the note away, unless another server has put its own there.
func (n *serverNote) remove(dir string) error {
	kept, err := readNote(dir)
	if err != nil || kept == nil || kept.PID != n.PID || kept.Token != n.Token {
		return err
	}
	return os.Remove(filepath.Join(dir, noteFile))
}
