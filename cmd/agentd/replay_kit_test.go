package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/evidence/replaytest"
	"agentd/store"
)

// The tests of this package run the program as processes. Each process notes where its
// facts are. When a test has ended, and with it its processes, what was decided in every
// session that they left is decided again.

// startsVariable names the directory in which processes note how they were started.
const startsVariable = "STARTS_NOTED_IN"

// replayed counts the decisions of this package's tests that were made again.
var replayed replaytest.Tally

// recordings are the [recording]s of the tests that run, by their names.
var recordings sync.Map

// recording is what the processes of a test leave.
type recording struct {
	// dir is where they note how they were started.
	dir string
	// over says that the sessions were run again already.
	over bool
}

// recorded returns where the processes of a test note how they were started. Their
// sessions are run again when the test has ended: after what is cleaned up from here on
// and before its directories are removed.
func recorded(tb testing.TB) *recording {
	tb.Helper()
	if r, ok := recordings.Load(tb.Name()); ok {
		return r.(*recording)
	}
	r := &recording{dir: tb.TempDir()}
	recordings.Store(tb.Name(), r)
	tb.Cleanup(func() {
		recordings.Delete(tb.Name())
		r.replay(tb)
	})
	return r
}

// noting is the variable that has a process note how it was started.
func noting(tb testing.TB) string {
	tb.Helper()
	return startsVariable + "=" + recorded(tb).dir
}

// recordScript does for a script what recorded does for a test.
func recordScript(env *testscript.Env) error {
	tb, ok := env.T().(testing.TB)
	if !ok {
		return errors.New("the script is no test")
	}
	r := &recording{dir: tb.TempDir()}
	env.Setenv(startsVariable, r.dir)
	env.Setenv("AGENTD_DATA", "./.agentd") // scripts about the user's own server unset it
	home := filepath.Join(env.WorkDir, ".home")
	for _, v := range ownFolders(home) {
		name, value, _ := strings.Cut(v, "=")
		env.Setenv(name, value)
	}
	env.Defer(func() {
		stopOwnServer(tb, home)
		r.replay(tb)
	})
	return nil
}

// replay runs every session again that the processes of a test recorded. A test that
// spoils what was recorded calls it before.
func (r *recording) replay(tb testing.TB) {
	tb.Helper()
	if r.over || tb.Failed() || tb.Skipped() {
		return // what a broken test left says nothing
	}
	r.over = true
	starts, err := readStarts(r.dir)
	if err != nil {
		tb.Errorf("how the processes of the test were started: %v", err)
		return
	}
	for _, data := range slices.Sorted(maps.Keys(starts)) {
		replayStore(tb, starts[data])
	}
}

// replayStore decides again in the sessions of a store, which processes had open.
func replayStore(tb testing.TB, starts []*started) {
	tb.Helper()
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	s, err := openExisting(ctx, &starts[0].Config, nil, log)
	for range 6000 {
		if !errors.Is(err, store.ErrLocked) {
			break
		}
		// A child that a server was just making when it ended has the lock for a moment.
		time.Sleep(10 * time.Millisecond)
		s, err = openExisting(ctx, &starts[0].Config, nil, log)
	}
	if err != nil {
		tb.Errorf("the facts that the test left: %v", err)
		return
	}
	replayed.Recorded(tb, s)
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
}

// started is how a process was started.
type started struct {
	// Dir is where it ran.
	Dir    string
	Config config.Config
	// Runs says that it carries out turns; others look at what is there.
	Runs bool
}

// noted is the program as a process that notes how it was started.
func noted() {
	dir := os.Getenv(startsVariable)
	if _, confined := os.LookupEnv(confineVariable); !confined && dir != "" {
		here, err := os.Getwd()
		if err == nil {
			err = noteStart(dir, here, os.Args[1:], os.Environ())
		}
		if err == nil && os.Getenv("XDG_RUNTIME_DIR") == "" {
			err = errors.New("its sockets would be in the folder of the user who runs the tests; begin with ownEnv")
		}
		if err != nil {
			panic(fmt.Sprintf("the start can't be noted: %v", err))
		}
	}
	main()
}

// noteStart notes how the program is started. What has no facts, or can't be used, isn't
// noted.
func noteStart(dir, here string, args, env []string) error {
	a := &app{env: envMap(env)}
	cmd, rest, err := a.root().Find(args)
	if err != nil || cmd.ParseFlags(rest) != nil || cmd.Flags().Lookup("data") == nil {
		return nil //nolint:nilerr // the program itself says what is wrong with it
	}
	for _, c := range configurations(a, cmd) {
		s := started{Dir: here, Config: *c}
		s.Runs = slices.Contains([]string{"serve", "run", "chat", "stdio", "acp", "mcp", "import"}, cmd.Name())
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(s); err != nil {
			return err
		}
		f, err := os.CreateTemp(dir, "start-*")
		if err != nil {
			return err
		}
		_, err = f.Write(b.Bytes())
		if err = errors.Join(err, f.Close(), os.Rename(f.Name(), f.Name()+".noted")); err != nil {
			return err
		}
	}
	return nil
}

// configurations are those that a command is run with: a benchmark has several.
func configurations(a *app, cmd *cobra.Command) []*config.Config {
	sources := []config.Sources{a.sources(cmd)}
	if files, err := cmd.Flags().GetStringArray("config"); err == nil {
		sources = nil
		for _, f := range files {
			sources = append(sources, config.Sources{File: f, Env: func(name string) string { return a.env[name] }, Flags: map[string]string{"data": cmd.Flag("data").Value.String()}})
		}
	}
	var out []*config.Config
	for _, src := range sources {
		if loaded, err := config.Load(src); err == nil {
			out = append(out, loaded.Config)
		}
	}
	return out
}

// readStarts returns how processes were started, by the facts that they worked on.
func readStarts(dir string) (map[string][]*started, error) {
	files, err := filepath.Glob(filepath.Join(dir, "start-*.noted"))
	if err != nil {
		return nil, err
	}
	out := map[string][]*started{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		s := &started{}
		if err := gob.NewDecoder(bytes.NewReader(data)).Decode(s); err != nil {
			return nil, err
		}
		s.settle()
		if s.Config.Database() && s.Runs || hasStore(s.Config.Data) {
			out[s.Config.Data] = append(out[s.Config.Data], s)
		}
	}
	return out, nil
}

// settle makes the path of the facts one that can be used from here.
func (s *started) settle() {
	c := &s.Config
	if c.Data != "" && !filepath.IsAbs(c.Data) && !config.IsDatabase(c.Data) {
		c.Data = filepath.Join(s.Dir, c.Data)
	}
	if resolved, err := filepath.EvalSymlinks(c.Data); err == nil {
		c.Data = resolved
	}
}
