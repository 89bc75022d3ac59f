package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"agentd/cmd/agentd/internal/config"
	"agentd/event"
	"agentd/loop"
	"agentd/sandbox"
	"agentd/tool/mcp"
)

// hookProfiles returns the profile of each hook, by its position. A hook isn't what
// it watches over: it has the limits of tools and hides what they don't see, and
// nothing else of theirs.
func hookProfiles(c *config.Config, tools sandbox.Profile) func(name string) sandbox.Profile {
	profiles := map[string]sandbox.Profile{}
	for i, h := range c.Hooks {
		p := confineProfile(&h.Sandbox, tools.Hidden)
		p.Limits, p.Kept = tools.Limits, programs(fromHere(h.Command))
		profiles[strconv.Itoa(i)] = p
	}
	return func(name string) sandbox.Profile { return profiles[name] }
}

// confineProfile is a configured profile; what is empty is workspace_write, without a
// network.
func confineProfile(c *config.Confine, hidden []string) sandbox.Profile {
	return sandbox.Profile{
		Mode: sandbox.Mode(c.Mode), Network: sandbox.Network(c.Network), AllowedHosts: c.Allowed,
		ReadRoots: fromHome(c.ReadRoots), WriteRoots: c.WriteRoots, Hidden: visibleAgain(hidden, c.Visible), Env: c.Env,
	}
}

// fromHome are paths in which ~ stands for the home folder.
func fromHome(paths []string) []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return paths // what can't be found is then said of "~"
	}
	out := slices.Clone(paths)
	for i, p := range paths {
		if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || strings.HasPrefix(rest, "/")) {
			out[i] = filepath.Join(home, rest)
		}
	}
	return out
}

// programs are the places of the files that a configured command names, so that it
// finds itself and what lies beside it also below /tmp, of which each process has
// its own. A file that lies in /tmp itself comes alone.
func programs(command []string) []string {
	var out []string
	for _, arg := range command {
		if !filepath.IsAbs(arg) {
			continue
		}
		if info, err := os.Stat(arg); err != nil || !info.Mode().IsRegular() {
			continue
		}
		place := filepath.Dir(arg)
		if place == "/tmp" || place == "/var/tmp" {
			place = arg
		}
		out = append(out, place)
	}
	return out
}

// fromHere makes a program that is named by a relative path, and is there, absolute:
// paths of the configuration are relative to the working directory.
func fromHere(command []string) []string {
	if len(command) == 0 || filepath.IsAbs(command[0]) || !strings.ContainsRune(command[0], filepath.Separator) {
		return command
	}
	abs, err := filepath.Abs(command[0])
	if err != nil {
		return command
	}
	if info, err := os.Stat(abs); err != nil || !info.Mode().IsRegular() {
		return command
	}
	return append([]string{abs}, command[1:]...)
}

// confineServers gives each MCP server that is a process of ours its profile, and
// says in the facts of its calls what that is worth here.
func (a *app) confineServers(c *config.Config, servers []mcp.Server, o *loop.Options, root string) (func(string, *exec.Cmd) error, error) {
	profiles := map[string]sandbox.Profile{}
	for i, s := range c.MCP {
		if len(s.Command) == 0 {
			continue
		}
		p := a.serverProfile(&s, root, o)
		if runtime.GOOS != "linux" {
			servers[i].Boundary = loop.NoBoundary(root, "processes are confined on Linux only")
			continue
		}
		p, err := p.Fixed(o.Places)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("mcp[%d].sandbox: %w", i, err)}
		}
		plan, err := o.Processes().Prepare(p)
		if err != nil {
			return nil, &exitError{exitUsage, fmt.Errorf("mcp[%d].sandbox: %w", i, err)}
		}
		servers[i].Boundary = loop.BoundaryOf(plan, root)
		profiles[s.ID] = p
	}
	return func(server string, cmd *exec.Cmd) error {
		p, ok := profiles[server]
		if !ok {
			return nil
		}
		return confine(cmd, p)
	}, nil
}

// serverProfile is what an MCP server gets: the workspace, the caches of package
// managers, by which most servers are started, and the network, which is what many
// of them are for; never the data directory.
func (a *app) serverProfile(s *config.MCP, root string, o *loop.Options) sandbox.Profile {
	p := confineProfile(&s.Sandbox.Confine, o.Sandbox.Hidden)
	p.Limits = serverLimits(&s.Sandbox)
	p.Root, p.Env, p.Kept = root, nil, programs(s.Command) // its variables are those of the command
	p.Protected = loop.Bounds(root, o.Bounds)
	if p.Network == "" {
		p.Network = sandbox.NetworkAllow
	}
	if p.WriteRoots == nil && p.Mode != sandbox.ReadOnly && p.Mode != sandbox.DangerFullAccess {
		p.WriteRoots = caches(a.env["HOME"], s.Command[0])
	}
	return p
}

// Limits of an MCP server that the configuration says nothing of: more than a
// browser with some pages needs, and less than what takes a machine down.
const (
	serverMemoryMB  = 8192
	serverProcesses = 2048
	serverOpenFiles = 16384
)

func serverLimits(c *config.ConfineServer) sandbox.Limits {
	return sandbox.Limits{
		MemoryMB:  c.Limits.MemoryMB.Or(serverMemoryMB),
		Processes: c.Limits.Processes.Or(serverProcesses),
		OpenFiles: c.Limits.OpenFiles.Or(serverOpenFiles),
	}
}

// caches are the folders below the home folder in which package managers keep what
// they fetched. The one that the command will need is made, as it would itself.
func caches(home, command string) []string {
	if home == "" || !filepath.IsAbs(home) {
		return nil
	}
	needs := map[string]string{"npx": ".npm", "npm": ".npm", "pnpm": ".cache", "bunx": ".bun", "uvx": ".cache", "uv": ".cache", "pipx": ".cache"}
	if dir := needs[filepath.Base(command)]; dir != "" {
		_ = os.MkdirAll(filepath.Join(home, dir), 0o750) // without it the server says what it lacks
	}
	var out []string
	for _, dir := range []string{".cache", ".npm", ".bun", ".deno", ".local/share/uv", ".local/share/pnpm", ".local/share/pipx"} {
		path := filepath.Join(home, dir)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			out = append(out, path)
		}
	}
	return out
}

// confineVariable makes the program the keeper of one process in a sandbox: it
// holds the profile.
const confineVariable = "AGENTD_CONFINE"

// confine puts a command that isn't started yet behind a keeper, which is this
// program again. The keeper ends with the process that started it, and the command with its
// keeper.
func confine(cmd *exec.Cmd, p sandbox.Profile) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	spec, err := json.Marshal(p) //nolint:musttag // read by the same program
	if err != nil {
		return fmt.Errorf("confine: %w", err)
	}
	program := cmd.Path
	cmd.Path, cmd.Args = self, append([]string{"agentd", program}, cmd.Args[1:]...)
	cmd.Env = append(slices.Clone(cmd.Env), confineVariable+"="+string(spec))
	return nil
}

// runConfined runs the command of its arguments in the profile and returns its exit code.
func runConfined(spec string, argv, environ []string) int {
	var p sandbox.Profile
	if err := json.Unmarshal([]byte(spec), &p); err != nil { //nolint:musttag // written by the same program
		fmt.Fprintln(os.Stderr, "agentd:", confineVariable+":", err)
		return exitUsage
	}
	var env []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if name != confineVariable && name != "TMPDIR" { // it has a /tmp of its own
			env = append(env, e)
		}
	}
	code, err := keepChild(p, sandbox.Command{Argv: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "agentd:", err)
		return exitFailed
	}
	return code
}

func keepChild(p sandbox.Profile, cmd sandbox.Command) (int, error) {
	plan, err := sandbox.Prepare(p, sandbox.Probe())
	if err != nil {
		return 0, err
	}
	if dir, err := os.Getwd(); err == nil {
		cmd.Dir = dir
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	child, err := plan.Start(cmd)
	if err != nil {
		return 0, err
	}
	defer child.Close()
	if err := child.Go(); err != nil {
		return 0, err
	}
	for {
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				_ = child.Signal(int(n), true) // one that is gone needs none
			}
		case <-child.Done():
			return keptExit(child.Wait(), plan)
		}
	}
}

// exitLimited is what a keeper ends with if a limit ended its command. The command
// itself can't make it: its own code of that number becomes another.
const exitLimited = 121

// keptExit is the exit code of a keeper whose command has ended.
func keptExit(exit sandbox.Exit, plan *sandbox.Plan) (int, error) {
	if exit.Failure != nil {
		return 0, exit.Failure
	}
	if v := sandbox.Classify(exit, "", plan); v != nil && v.Boundary == "limit" && !exit.Success() {
		fmt.Fprintln(os.Stderr, "agentd: a limit of mcp[].sandbox.limits was hit:", v.Detail)
		return exitLimited, nil
	}
	if exit.Code == exitLimited {
		return exitFailed, nil
	}
	return exit.Code, nil
}

// limited says whether a server's process was ended by one of its limits.
func limited(state *os.ProcessState) bool {
	return runtime.GOOS == "linux" && state != nil && state.ExitCode() == exitLimited
}

// boundaryNote says in one line how a server is confined.
func boundaryNote(b *event.SandboxApplied) string {
	if b == nil {
		return "not a process of ours"
	}
	note := fmt.Sprintf("%s, network %s, files %s", b.Mode, b.Network, b.Enforcement.Filesystem)
	if len(b.NotEnforced) > 0 {
		note += "; not enforced: " + strings.Join(b.NotEnforced, "; ")
	}
	return note
}
