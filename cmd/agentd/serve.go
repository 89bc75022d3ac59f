package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"agentd"
	"agentd/channel/a2a/peer"
	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/rundir"
	"agentd/server"
	"agentd/store"
	"agentd/store/postgres"
)

// stopWithin is how long running steps may take to reach their next durable fact.
const stopWithin = 10 * time.Second

func (a *app) serveCommand() *cobra.Command {
	var fixtures fixtureFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Runs the server: HTTP, server-sent events, WebSocket and JSON-RPC. Prints one
line on standard output when it is ready; the log goes to standard error. The
first start creates the data directory and an admin token in DATA/token,
unless AGENTD_TOKEN gives one.

SIGTERM and SIGINT: stops accepting, lets each running step reach its next
durable fact, at most 10 s, and exits with 0. SIGHUP: reads the configuration
again and applies the settings that can change while it runs. SIGQUIT: writes the
stacks of all goroutines to standard error and goes on.

Exit codes: 0 stopped as asked, 1 failed, 2 usage or configuration.`,
		Example: `  agentd serve
  agentd serve --data /var/lib/agentd --listen 127.0.0.1:8700
  agentd serve --config agentd.yaml
  agentd serve --data postgres://agentd@db.example/agentd`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load(cmd)
			if err != nil {
				return err
			}
			s := &serving{app: a, loaded: loaded, sources: a.sources(cmd), fixtures: fixtures}
			s.log, s.level = a.logger(loaded.Config)
			return s.run(cmd.Context())
		},
	}
	fixtures.addFlag(cmd)
	return a.settings(cmd, flagSettings()...)
}

// serving is one run of the server.
type serving struct {
	*app
	loaded  *config.Loaded
	sources config.Sources
	log     *slog.Logger
	level   *slog.LevelVar

	cert     *server.Certificate // nil without TLS, as tls is
	tls      *tls.Config
	identity *server.NodeIdentity // nil if nodes have no certificates for each other
	store    store.Store
	wired    *wiring
	runtime  *agentd.Runtime
	tokens   *server.Tokens
	listener net.Listener
	// free ends that the listener answers for a node that starts.
	free func()
	// managed says that the listener is the service manager's.
	managed bool
	// address is where other nodes reach this one; leaveName gives its name back.
	address string
	// nodeName is the name of this node, and others what it knows of the rest; empty and nil
	// if there is only one.
	nodeName  string
	others    *nodesSeen
	leaveName func() error
	door      *server.Server
	note      *serverNote
	console   *server.Console // nil in a build without one
	// backups is held while a backup is made.
	backups  sync.Mutex
	fixtures fixtureFlags
	takenUp  takenUp
	// peers gives work to other agents.
	peers       *peer.Client
	peerSecrets *peerSecrets
	// settingsInUse are the settings as admins are shown them.
	settingsInUse atomic.Pointer[[]config.Value]
	// background says that it is the user's server, which commands start and replace;
	// ready is told when it is, or why it isn't, and asked is what its configuration says
	// of any server.
	background bool
	ready      *readiness
	asked      *config.Config
	// closers end what the protocols have open, before the runtime is closed.
	closers []func() error
}

// run opens everything, serves until ctx ends, and closes it in reverse order.
func (s *serving) run(ctx context.Context) error {
	signals := catchSignals()
	defer signal.Stop(signals)
	unlock, err := s.takeOver(ctx)
	if err != nil {
		return err
	}
	if err = s.open(ctx); err == nil {
		err = s.announce()
	}
	unlock()
	s.ready.tellOutcome(err)
	if err != nil {
		return errors.Join(err, s.close(ctx))
	}
	err = s.serve(ctx, signals)
	if err != nil {
		s.log.Error("stopped", "error", err)
	} else {
		s.log.Info("stopped")
	}
	return err
}

// open opens everything that serving needs.
func (s *serving) open(ctx context.Context) error {
	c := s.loaded.Config
	if err := s.checkDoor(); err != nil {
		return err
	}
	if err := s.openStoreAndListen(ctx); err != nil {
		return err
	}
	auth, err := s.openTokens()
	if err != nil {
		return err
	}
	if s.wired, err = s.wire(ctx, c, s.store, s.log); err != nil {
		return err
	}
	s.fixtures.addModel(&s.wired.options.Loop)
	// What the kernel offers is found out beside the start, which needn't wait for
	// it; a command of the shell finds it out when it needs it.
	go s.wired.options.Loop.Processes()
	if err := s.openPeers(); err != nil {
		return err
	}
	// Turns go on as soon as the runtime is open, and find their tools then.
	s.settle(ctx)
	s.wired.options.Host = s.host()
	s.wired.options.Place.Node = s.nodeName
	s.wired.options.TakenUp = s.takenUp.reportSession
	if s.runtime, err = agentd.Open(ctx, s.wired.options); err != nil {
		return err
	}
	s.wired.opened(ctx, s.runtime)
	b := &backend{Port: s.runtime.Port(), store: s.store, listen: s.note.URL, servers: s.wired.servers, nodeName: s.nodeName}
	if s.background {
		b.projects = &projectFiles{runtime: s.runtime, sources: s.sources, models: s.modelIDs, log: s.log}
	}
	s.peers.Start(b)
	s.door = server.New(b, &server.Options{
		Auth: auth, Logger: s.log, Version: s.version, AllowedHosts: servedHosts(c, s.address), TLS: s.tls, NodeAlive: s.nodeAlive(), NodeSilence: time.Duration(c.Node.Lease), Nodes: s.identity,
		StopTimeout: stopWithin, Collect: s.collect, Mounts: s.mounts(b), Console: s.console,
	})
	if s.free != nil {
		s.free()
	}
	return nil
}

// settle waits for the tools of MCP servers, so that a server that says it is ready
// has them. One that doesn't answer holds the start up for a while only.
func (s *serving) settle(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	s.wired.settle(wait)
}

// openStoreAndListen opens the store first, because its lock says who may serve.
// A database has no such lock, and wants to know where this node can be reached once its tables
// are up to date.
func (s *serving) openStoreAndListen(ctx context.Context) (err error) {
	c := s.loaded.Config
	if c.Database() {
		if err := s.claimData(c); err != nil {
			return err
		}
		if s.nodeName, s.leaveName, err = nodeName(c); err != nil {
			return err
		}
		var unheard error
		listen := func(ctx context.Context) (address string, err error) {
			address, unheard = s.listenAsNode(ctx)
			return address, unheard
		}
		if s.store, err = s.app.openStore(ctx, c, node{name: s.nodeName, listen: listen}, s.log); err != nil {
			return cmp.Or(unheard, err)
		}
		if shared, ok := s.store.(store.Shared); ok {
			s.others = &nodesSeen{shared: shared}
			s.warnOfSameAddress(ctx)
		}
		return nil
	}
	if s.store, err = s.openFreed(ctx); err != nil {
		return err
	}
	if err := removeScratch(c.Data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return s.listen(ctx)
}

// listenAsNode begins to listen, and returns where the other nodes reach this one.
func (s *serving) listenAsNode(ctx context.Context) (address string, err error) {
	if err := s.listen(ctx); err != nil {
		return "", err
	}
	if s.address = advertised(s.loaded.Config, s.listener.Addr(), s.tls != nil); s.address == "" {
		s.log.Warn("other nodes can't reach this one, so commands about its sessions that they get fail; set advertise, or listen at a port")
	}
	if err := s.joinNodes(); err != nil {
		return "", err
	}
	s.free = server.AnswerStarting(s.listener, s.tls)
	return s.address, nil
}

func (s *serving) listen(ctx context.Context) (err error) {
	if s.background {
		if s.listener, err = rundir.Activated(s.getenv); err != nil || s.listener != nil {
			s.managed = err == nil
			return err
		}
	}
	if s.listener, err = server.Listen(ctx, s.listenAddress(), true); err != nil {
		advice := "--listen names another address"
		if s.loaded.Config.Socket != "" {
			advice = "--socket names another path"
		}
		return fmt.Errorf("can't listen on %s: %w; %s", s.listenAddress(), errors.Unwrap(err), advice)
	}
	return nil
}

// nodeURL is where other nodes reach this one; empty if they can't.
func nodeURL(addr net.Addr, secure bool) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return ""
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		name, err := os.Hostname()
		if err != nil {
			return ""
		}
		host = name
	}
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// listenAddress is where to listen, as [server.Listen] wants it.
func (s *serving) listenAddress() string {
	if c := s.loaded.Config; c.Socket != "" {
		return "unix:" + c.Socket
	}
	return s.loaded.Config.Listen
}

// announce tells that the server is ready: a file for the commands of this
// machine, a line for the person who started it.
func (s *serving) announce() error {
	c := s.loaded.Config
	if err := s.note.write(c.Local()); err != nil {
		return err
	}
	s.log.Info("ready", "url", s.note.URL, "data", redacted(c.Data), "pid", os.Getpid(), "version", s.version)
	if s.json {
		return writeJSON(s.out, map[string]any{"url": s.note.URL, "pid": os.Getpid(), "version": s.version})
	}
	_, err := fmt.Fprintf(s.out, "agentd listens on %s (data %v, process %d)\n", s.note.URL, redacted(c.Data), os.Getpid())
	return err
}

// serve answers until ctx ends or the listener fails. The runtime and the doors
// stop beside each other, so that both have all the time there is.
func (s *serving) serve(ctx context.Context, signals <-chan os.Signal) error {
	var background sync.WaitGroup
	watch, stopWatching := context.WithCancel(ctx)
	background.Go(func() { s.watchSignals(watch, signals) })
	ctx, failed := context.WithCancel(ctx)
	defer failed()
	if s.background {
		background.Go(func() { s.watchIdle(watch, failed) })
	}
	background.Go(func() { s.watchStore(watch, failed) })
	served := make(chan error, 1)
	listener := s.listener
	s.listener = nil // Serve closes it, also when ctx ends before it begins
	open, closeDoor := context.WithCancel(context.WithoutCancel(ctx))
	defer closeDoor()
	go func() {
		served <- s.door.Serve(open, listener)
		failed()
	}()
	<-ctx.Done()
	s.log.Info("stopping")
	s.drainFirst(ctx)
	closeDoor()
	_ = s.door.Stop(ctx) // from now on answers say so; the door waits for its clients itself
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	stopWatching()
	background.Wait()
	ended := make(chan struct{})
	defer close(ended)
	go s.watchStop(ended, signals)
	lost := s.store.Err()
	err := s.close(stop)
	if errors.Is(lost, store.ErrRestored) {
		err = errors.Join(lost, err)
	}
	select {
	case doorErr := <-served:
		return errors.Join(err, doorErr)
	case <-stop.Done():
		return err
	}
}

// watchStore ends the server when its database was restored to an earlier moment: what this
// process has in memory, and has shown, isn't so any more. Its
// supervisor starts it again.
func (s *serving) watchStore(ctx context.Context, end func()) {
	p, ok := s.store.(*postgres.Store)
	if !ok {
		return
	}
	select {
	case <-p.Failed():
		end()
	case <-ctx.Done():
	}
}

// drainWithin is how long a node that stops hands over what it has while it still answers.
const drainWithin = 2 * time.Second

// drainFirst hands over to the other nodes what is between two steps.
func (s *serving) drainFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	s.runtime.DrainFor(ctx)
}

// close closes what is open. What doesn't end in time is left to the end of the
// process: everything acknowledged is durable already.
func (s *serving) close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.closeAll(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		s.log.Warn("not everything stopped in time; the rest continues at the next start", "within", stopWithin.String())
		return nil
	}
}

func (s *serving) closeAll(ctx context.Context) error {
	var errs []error
	if s.listener != nil {
		errs = append(errs, s.listener.Close())
	}
	for _, end := range s.closers {
		errs = append(errs, end())
	}
	if s.runtime != nil {
		errs = append(errs, s.runtime.Close(ctx))
	}
	if s.wired != nil {
		errs = append(errs, s.wired.close())
	}
	if s.note != nil {
		errs = append(errs, s.note.remove(s.loaded.Config.Local()))
	}
	if s.tokens != nil {
		errs = append(errs, s.tokens.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.leaveName != nil {
		errs = append(errs, s.leaveName())
	}
	return errors.Join(errs...)
}
