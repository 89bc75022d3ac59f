package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"agentd/fault"
)

// Listen opens a listener: "host:port", or "unix:PATH" for a Unix socket with
// mode 0600. An address that others than this machine reach needs secure, which
// says that TLS is used or that the operator accepts that it isn't.
func Listen(ctx context.Context, addr string, secure bool) (net.Listener, error) {
	var lc net.ListenConfig
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(ctx, &lc, path)
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("server: listen address %q: %w", addr, err)
	}
	if !secure && !isLoopback(host) {
		return nil, fmt.Errorf("server: %s can be reached from other machines: use TLS, or allow insecure listening explicitly", addr)
	}
	network := "tcp"
	if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
		network = "tcp4" // else 0.0.0.0 would be all addresses of IPv6, too
	}
	l, err := lc.Listen(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return l, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// listenUnix replaces a stale socket.
func listenUnix(ctx context.Context, lc *net.ListenConfig, path string) (net.Listener, error) {
	var d net.Dialer
	if c, err := d.DialContext(ctx, "unix", path); err == nil {
		_ = c.Close() // nothing was sent
		return nil, fmt.Errorf("server: %w", errors.New("another process is listening there"))
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("server: %w", errors.New("a file that isn't a socket has this name"))
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("server: %w", err)
		}
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	// Between Listen and Chmod the folder's mode protects the socket.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("server: %w", err), l.Close())
	}
	return l, nil
}

// maxRawHeader is where net/http gives up reading headers. Up to there a request
// that is too large gets a proper answer.
const maxRawHeader = 1 << 20

// Serve answers on a listener, which it closes, until ctx ends; then it accepts
// nothing more, ends the streams, waits up to StopTimeout for requests under
// way, and returns nil. A client that stopped reading is disconnected
// sooner: each write has a quarter of that time. It may be called for several
// listeners.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	logger := s.opt.Logger
	var silent silentConns
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: s.opt.HeaderTimeout,
		IdleTimeout:       s.opt.IdleTimeout,
		MaxHeaderBytes:    maxRawHeader,
		ErrorLog:          log.New(&lineLogger{logger}, "", 0),
		TLSConfig:         s.opt.TLS,
		ConnContext:       withLink,
		ConnState:         silent.noteState,
	}
	bounded := &boundedListener{Listener: l, s: s, raw: s.opt.TLS == nil}
	failed := make(chan error, 1)
	go func() {
		if s.opt.TLS != nil {
			failed <- srv.ServeTLS(bounded, "", "")
		} else {
			failed <- srv.Serve(bounded)
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("server: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.StopTimeout)
	defer cancel()
	s.endStreams()
	s.conns.hurry()
	defer time.AfterFunc(silencePatience, silent.closeAll).Stop()
	err := errors.Join(srv.Shutdown(stop), s.Stop(stop))
	if err != nil {
		logger.Warn("running requests were aborted", "error", err)
		err = srv.Close()
	}
	<-failed
	return err
}

// lineLogger passes what net/http complains about on to the log.
type lineLogger struct{ to *slog.Logger }

// Write implements [io.Writer].
func (l *lineLogger) Write(p []byte) (int, error) {
	l.to.Debug("connection", "detail", strings.TrimSpace(string(p)))
	return len(p), nil
}

// bareError recognises an answer that net/http wrote by itself: no handler of
// ours sends an error as plain text, or 417 at all.
func bareError(p []byte) error {
	const version = "HTTP/1.1 "
	if len(p) < len(version)+4 || string(p[:len(version)]) != version || (p[9] != '4' && p[9] != '5') {
		return nil
	}
	status, rest, _ := strings.Cut(string(p[len(version):min(len(p), 512)]), "\r\n")
	expect := strings.HasPrefix(status, "417 ")
	if !expect && !strings.HasPrefix(rest, "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n") {
		return nil
	}
	switch {
	case strings.HasPrefix(status, "431 "):
		return fault.New(fault.HeaderTooLarge, "the request's headers are larger than %s", sizeWord(maxRawHeader))
	case expect:
		return fault.New(fault.InvalidParams, "the header Expect only allows 100-continue")
	}
	return fault.New(fault.InvalidParams, "the request is not valid HTTP: %s", strings.ToLower(status))
}

// rawProblem is a whole HTTP answer, after which the connection is closed.
func rawProblem(err error) []byte {
	p := problemOf(err, "")
	body := problemJSON(p)
	retry := ""
	if p.RetryAfter > 0 {
		retry = fmt.Sprintf("Retry-After: %d\r\n", p.RetryAfter)
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s",
		p.Status, http.StatusText(p.Status), len(body), retry, body)
}
