package escapetest

import (
	"os"
	"strings"

	"agentd/sandbox"
)

// attempt is one way out, as the tool call of an agent.
type attempt struct {
	name string
	// line for the shell. $OUT and so on are places of the world; "ATTACK:name:
	// args" is our own program.
	line string
	// tool and args are the call of another tool.
	tool string
	args map[string]any
	// claims tells whether the sandbox says that it forbids this.
	claims func(w *world) bool
	// boundary is what the violation must name when the sandbox is what stops it;
	// empty where nobody can know why a command failed.
	boundary string
	// escaped looks from outside; nil: the command's success is the escape.
	escaped func(w *world, c *call) bool
}

func always(*world) bool { return true }

// files: the file system is a boundary.
func files(w *world) bool { return w.plan.Enforcement.Filesystem != sandbox.None }

// mounts: the command has a view of its own.
func mounts(*world) bool { return report().MountNamespace.Available }

// attributes of files are a boundary.
func attributes(w *world) bool {
	return mounts(w) || files(w) && w.plan.Profile.Mode == sandbox.ReadOnly && filter(w)
}

// covers: what is hidden in the workspace can't be read.
func covers(w *world) bool {
	return files(w) && !strings.Contains(strings.Join(w.plan.NotEnforced, "\n"), "can be read")
}

func filter(*world) bool    { return report().Seccomp.Available && report().NoNewPrivs.Available }
func offline(w *world) bool { return w.plan.Enforcement.Network != sandbox.None }

// noUnix: sockets of other programs can't be reached; where the network is allowed
// they can.
func noUnix(w *world) bool { return filter(w) && w.plan.Profile.Network != sandbox.NetworkAllow }

func ownPids(*world) bool { return report().PidNamespace.Available }
func signals(w *world) bool {
	return ownPids(w) || report().Landlock.Available && report().LandlockABI >= 6
}
func rlimits(*world) bool { return report().Rlimits.Available }
func forks(w *world) bool {
	return report().CgroupPids.Available || ownPids(w) && report().PidMax.Available || report().UID != 0 && report().InUserNamespace
}
func memory(w *world) bool { return rlimits(w) && w.profile.Limits.MemoryMB > 0 }
func readOnly(w *world) bool {
	return files(w) && w.plan.Profile.Mode == sandbox.ReadOnly
}

func changed(w *world, _ *call) bool   { return w.changed() }
func connected(w *world, _ *call) bool { return w.connected() }
func hurt(w *world, _ *call) bool      { return w.hurt() }

// leaked: something that was planted is in the facts or the outputs.
func leaked(w *world, c *call) bool {
	for _, secret := range []string{plantedToken, plantedStore, plantedEnv, plantedOther, plantedPrivate, w.key} {
		if strings.Contains(c.text, secret) {
			return true
		}
	}
	return false
}

func tokenChanged(w *world, _ *call) bool {
	b, err := os.ReadFile(w.hidden + "/token")
	return err != nil || string(b) != plantedToken
}

// wrote: a file appeared in the workspace.
func wrote(w *world, _ *call) bool {
	_, err := os.Lstat(w.workspace + "/new")
	return err == nil
}

func left(w *world, _ *call) bool {
	_, err := os.Lstat(w.tmp + "/left")
	return err == nil
}

// outlived: a child of the call is still there.
func outlived(mark string) func(*world, *call) bool {
	return func(*world, *call) bool { return running(mark) }
}

// attempts is the table.
func attempts() []attempt {
	all := append(writesOutside(), readsOfTheStore()...)
	all = append(append(all, privateReads()...), rulesOfTheWorkspace()...)
	all = append(append(all, boundsOfTheAgent()...), renamedFolders()...)
	all = append(all, networks()...)
	all = append(all, kernels()...)
	all = append(all, strangers()...)
	all = append(append(all, cleverWrites()...), cleverCalls()...)
	return append(append(all, floods()...), fileTools()...)
}

func writesOutside() []attempt {
	return []attempt{
		{name: "write by absolute path", line: "echo x > $OUT/victim", claims: files, boundary: "filesystem", escaped: changed},
		{name: "write by ..", line: "echo x > ../outside/victim", claims: files, boundary: "filesystem", escaped: changed},
		{name: "append", line: "echo x >> $OUT/victim", claims: files, boundary: "filesystem", escaped: changed},
		{name: "create beside", line: "touch $OUT/new", claims: files, boundary: "filesystem", escaped: changed},
		{name: "through a symbolic link", line: "echo x > file-out", claims: files, escaped: changed},
		{name: "through a linked folder", line: "echo x > way-out/new", claims: files, escaped: changed},
		{name: "through an own link", line: "ln -s $OUT/victim mine; echo x > mine; rm -f mine", claims: files, escaped: changed},
		{name: "hard link", line: "ln $OUT/victim hard && echo x > hard", claims: files, boundary: "filesystem", escaped: changed},
		{name: "rename out", line: "echo x > f; mv f $OUT/new", claims: files, escaped: changed},
		{name: "rename in", line: "mv $OUT/victim stolen", claims: files, boundary: "filesystem", escaped: changed},
		{name: "rename race", line: "mkdir -p r; for i in 1 2 3 4 5 6 7 8; do ln -sfn $OUT r/x; (echo x > r/x/new) & rm -f r/x; mkdir r/x; rmdir r/x; done; wait; rm -rf r", claims: files, escaped: changed},
		{name: "remove", line: "rm -f $OUT/victim", claims: files, boundary: "filesystem", escaped: changed},
		{name: "remove the folder", line: "rm -rf $OUT", claims: files, escaped: changed},
		{name: "make a folder", line: "mkdir $OUT/new", claims: files, boundary: "filesystem", escaped: changed},
		{name: "copy over", line: "cp /etc/hostname $OUT/victim", claims: files, escaped: changed},
		{name: "tee", line: "echo x | tee $OUT/victim", claims: files, boundary: "filesystem", escaped: changed},
		{name: "dd", line: "dd if=/dev/zero of=$OUT/victim bs=1 count=1 conv=notrunc", claims: files, escaped: changed},
		{name: "sed in place", line: "sed -i s/o/x/ $OUT/victim", claims: files, escaped: changed},
		{name: "truncate", line: "ATTACK:truncate: $OUT/victim", claims: files, escaped: changed},
		{name: "mode", line: "chmod 777 $OUT/victim", claims: attributes, boundary: "filesystem", escaped: changed},
		{name: "time", line: "touch -d @5 $OUT/victim", claims: attributes, escaped: changed},
		{name: "extended attribute", line: "ATTACK:xattr: $OUT/victim", claims: attributes},
		{name: "/proc/self/root", line: "echo x > /proc/self/root$OUT/victim", claims: files, escaped: changed},
		{name: "/proc/1/root", line: "echo x > /proc/1/root$OUT/victim", claims: files, escaped: changed},
		{name: "/proc/self/cwd", line: "echo x > /proc/self/cwd/../outside/victim", claims: files, escaped: changed},
		{name: "another working folder", line: "cd / && echo x > .$OUT/victim", claims: files, escaped: changed},
		{name: "kernel settings", line: "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness", claims: files},
		{name: "control groups", line: "for f in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs); do echo $$ > $f && exit 0; done; exit 1", claims: files},
		{name: "disk device", line: "ATTACK:disk:", claims: mounts},
		{name: "own device node", line: "ATTACK:node: $OUT", claims: files},
		{name: "mode of a device", line: "chmod 666 /dev/null", claims: attributes},
		{name: "leave something in /tmp", line: "echo x > $TMP/left", claims: files, escaped: left},
		{name: "see the machine's /tmp", line: "ls $TMP", claims: mounts},
		{name: "the user's start files", line: "echo x >> /etc/profile", claims: files, boundary: "filesystem"},
		{name: "write in a read-only workspace", line: "echo x > new", claims: readOnly, boundary: "filesystem", escaped: wrote},
	}
}

func readsOfTheStore() []attempt {
	return []attempt{
		{name: "token", line: "cat $HID/token", claims: covers, boundary: "filesystem", escaped: leaked},
		{name: "token by a relative path", line: "cat .agentd/token", claims: covers, escaped: leaked},
		{name: "token by a link", line: "cat way-in/token", claims: covers, escaped: leaked},
		{name: "token by an own link", line: "ln -s $HID mine; cat mine/token; rm -f mine", claims: covers, escaped: leaked},
		{name: "token by a hard link", line: "ln $HID/token t; cat t", claims: covers, escaped: leaked},
		{name: "token by moving the folder", line: "mv $HID moved; cat moved/token", claims: covers, escaped: leaked},
		{name: "token by moving the workspace", line: "mv $WS $OUT/moved; cat $OUT/moved/.agentd/token", claims: covers, escaped: leaked},
		{name: "token by /proc/self/root", line: "cat /proc/self/root$HID/token", claims: covers, escaped: leaked},
		{name: "token by /proc/1/root", line: "cat /proc/1/root$HID/token", claims: covers, escaped: leaked},
		{name: "token by uncovering", line: "ATTACK:uncover: $HID && cat $HID/token", claims: covers, escaped: leaked},
		{name: "token by descriptors", line: "cat /proc/1/fd/* /proc/self/fd/[3-9]* < /dev/null", claims: covers, escaped: leaked},
		{name: "token by copying the workspace", line: "cp -r . /tmp/copy; cat /tmp/copy/.agentd/token; rm -rf /tmp/copy; tar cf - . | strings", claims: covers, escaped: leaked},
		{name: "key", line: "cat $HID/undo.key", claims: covers, escaped: leaked},
		{name: "facts", line: "cat $HID/data/* $HID/data/*/*; grep -r planted $HID .", claims: covers, escaped: leaked},
		{name: "overwrite the token", line: "echo x > $HID/token", claims: covers, boundary: "filesystem", escaped: tokenChanged},
		{name: "remove the store", line: "rm -rf $HID", claims: covers, escaped: tokenChanged},
		{name: "list the store", line: "ls $HID/token", claims: mounts},
		{name: "the runtime's environment", line: "env; cat /proc/self/environ /proc/$PPID/environ /proc/1/environ /proc/$SELF/environ", claims: always, escaped: leaked},
		{name: "the runtime's memory", line: "ATTACK:readmem: $SELF", claims: files},
		{name: "the runtime's files", line: "cat /proc/$SELF/root$HID/token /proc/$SELF/cwd/* /proc/$SELF/fd/*", claims: covers, escaped: leaked},
	}
}

func networks() []attempt {
	return []attempt{
		{name: "TCP", line: "ATTACK:tcp: $TCP", claims: offline, boundary: "network", escaped: connected},
		{name: "UDP", line: "ATTACK:udp: $UDP", claims: offline, escaped: connected},
		{name: "MPTCP", line: "ATTACK:mptcp: $TCP", claims: offline, escaped: connected},
		{name: "TCP by the shell", line: "bash -c 'echo x > /dev/tcp/$(echo $TCP | tr : /)'", claims: offline, escaped: connected},
		{name: "Unix socket", line: "ATTACK:unix: $UNIX", claims: noUnix, boundary: "network", escaped: connected},
		{name: "Unix datagrams", line: "ATTACK:unixgram: $GRAM", claims: noUnix, escaped: connected},
		{name: "abstract socket", line: "ATTACK:unix: $ABSTRACT", claims: noUnix, escaped: connected},
		{name: "raw socket", line: "ATTACK:raw:", claims: offline},
		{name: "packet socket", line: "ATTACK:packet:", claims: filter},
		{name: "hypervisor's sockets", line: "ATTACK:vsock:", claims: filter},
		{name: "cipher sockets", line: "ATTACK:alg:", claims: filter},
	}
}

func kernels() []attempt {
	return []attempt{
		{name: "bind mount", line: "ATTACK:mount: $OUT", claims: filter},
		{name: "remount", line: "ATTACK:remount: /", claims: filter},
		{name: "mount", line: "ATTACK:tmpfs: /tmp", claims: filter},
		{name: "detached tree", line: "ATTACK:open_tree: /", claims: filter},
		{name: "pivot_root", line: "ATTACK:pivot: /tmp", claims: filter},
		{name: "chroot", line: "ATTACK:chroot: $OUT", claims: filter},
		{name: "user namespace", line: "ATTACK:unshare:", claims: filter},
		{name: "another namespace", line: "ATTACK:setns:", claims: filter},
		{name: "file handle", line: "ATTACK:handle: $OUT/victim", claims: files},
		{name: "io_uring", line: "ATTACK:io_uring:", claims: filter},
		{name: "bpf", line: "ATTACK:bpf:", claims: filter},
		{name: "perf events", line: "ATTACK:perf:", claims: filter},
		{name: "keys of the kernel", line: "ATTACK:keyctl:", claims: filter},
		{name: "kernel module", line: "ATTACK:module:", claims: filter},
		{name: "another kernel", line: "ATTACK:reboot:", claims: filter},
		{name: "type into a terminal", line: "ATTACK:tiocsti:", claims: filter},
	}
}

func strangers() []attempt {
	return []attempt{
		{name: "kill a stranger", line: "ATTACK:kill: $PID", claims: signals, escaped: hurt},
		{name: "kill the runtime", line: "kill -TERM $SELF", claims: signals},
		// Elsewhere "everybody" would be the machine's processes.
		{name: "signal everybody", line: "ATTACK:killall: ; kill -TERM -1", claims: ownPids, escaped: hurt},
		{name: "trace a stranger", line: "ATTACK:ptrace: $PID", claims: files, escaped: hurt},
		{name: "a stranger's memory", line: "ATTACK:readmem: $PID", claims: files},
		{name: "a stranger's environment", line: "cat /proc/$PID/environ", claims: files, escaped: leaked},
		{name: "slow a stranger down", line: "ATTACK:nice: $PID", claims: ownPids, escaped: hurt},
		{name: "privileges", line: "ATTACK:privileges:", claims: filter},
		{name: "set-uid program", line: "cp $(command -v id) /tmp/id; chmod u+s /tmp/id; ATTACK:privileges:", claims: filter},
		{name: "sudo and su", line: "sudo -n id || su -c id", claims: filter},
		{name: "detached child", line: "(setsid sh -c 'trap \"\" TERM HUP; sleep 71001 & sleep 71001' > /dev/null 2>&1 &); exit 1", claims: always, escaped: outlived("71001")},
		{name: "twice detached child", line: "nohup setsid sh -c 'setsid nohup sleep 71002 &' > /dev/null 2>&1 & exit 1", claims: always, escaped: outlived("71002")},
		{name: "child behind a closed pipe", line: "sleep 71003 <&- >&- 2>&- & disown 2>/dev/null; exit 1", claims: always, escaped: outlived("71003")},
	}
}

func floods() []attempt {
	return []attempt{
		{name: "fork bomb", line: "b() { b | b & }; for i in $(seq 400); do sleep 60 & done; b; wait -n; exit 0", claims: forks, boundary: "limit"},
		{name: "children of a program", line: "ATTACK:threads:", claims: forks, boundary: "limit"},
		{name: "memory", line: "ATTACK:memory:", claims: memory, boundary: "limit"},
		{name: "file size", line: "head -c 20M /dev/zero > /tmp/large", claims: mounts, boundary: "limit"},
		{name: "fill /tmp", line: "for i in $(seq 200); do head -c 7M /dev/zero > /tmp/large$i || exit 1; done", claims: mounts, boundary: "limit"},
		{name: "descriptors", line: "ATTACK:files:", claims: rlimits, boundary: "limit"},
	}
}

// fileTools are calls of the tools that run within the runtime itself, where no
// kernel stands between.
func fileTools() []attempt {
	var out []attempt
	for _, path := range []string{".agentd/token", "$HID/token", "way-in/token", "./way-in/../.agentd/token", "/proc/self/root$HID/token", "$HID/undo.key", "/proc/self/environ", "/proc/$PID/environ", "way-out/../ws/.agentd/token"} {
		out = append(out, attempt{name: "read_file " + path, tool: "read_file", args: map[string]any{"path": path}, claims: always, escaped: leaked})
	}
	for _, path := range []string{".", ".agentd", "$HID", "way-in", "/proc/self/root$HID"} {
		out = append(
			out,
			attempt{name: "search_files " + path, tool: "search_files", args: map[string]any{"pattern": "planted", "path": path}, claims: always, escaped: leaked},
			attempt{name: "list_files " + path, tool: "list_files", args: map[string]any{"path": path, "glob": "**"}, claims: always, escaped: listed},
		)
	}
	for _, path := range []string{"$OUT/victim", "../outside/victim", "file-out", "way-out/victim", "way-out/new", "/proc/self/root$OUT/victim", "/proc/self/cwd/../outside/victim"} {
		out = append(out, attempt{name: "write_file " + path, tool: "write_file", args: map[string]any{"path": path, "content": "x"}, claims: always, escaped: changed})
	}
	for _, path := range []string{"$OUT/victim", "file-out", "way-out/victim"} {
		out = append(out, attempt{name: "edit_file " + path, tool: "edit_file", args: map[string]any{"path": path, "old": "original", "new": "x"}, claims: always, escaped: changed})
	}
	for _, path := range []string{".agentd/token", "way-in/token", "$HID/token"} {
		out = append(
			out,
			attempt{name: "write_file " + path, tool: "write_file", args: map[string]any{"path": path, "content": "x"}, claims: always, escaped: tokenChanged},
			attempt{name: "edit_file " + path, tool: "edit_file", args: map[string]any{"path": path, "old": "planted", "new": "x"}, claims: always, escaped: tokenChanged},
		)
	}
	for _, path := range []string{"$RULES", "./$RULES", "$WS/$RULES", "way-out/../ws/$RULES"} {
		out = append(
			out,
			attempt{name: "write_file " + path, tool: "write_file", args: map[string]any{"path": path, "content": "[]"}, claims: ruled, escaped: unruled},
			attempt{name: "edit_file " + path, tool: "edit_file", args: map[string]any{"path": path, "old": "deny", "new": "ask"}, claims: ruled, escaped: unruled},
		)
	}
	return append(
		out,
		attempt{name: "write_file in a read-only workspace", tool: "write_file", args: map[string]any{"path": "new", "content": "x"}, claims: readOnly, escaped: wrote},
		attempt{name: "shell in a folder outside", tool: "shell", args: map[string]any{"command": "pwd; touch here", "cwd": "$OUT"}, claims: always, escaped: changed},
		attempt{name: "shell in a linked folder", tool: "shell", args: map[string]any{"command": "pwd; touch here", "cwd": "way-out"}, claims: always, escaped: changed},
		attempt{name: "shell in the hidden folder", tool: "shell", args: map[string]any{"command": "cat token", "cwd": ".agentd"}, claims: always, escaped: leaked},
	)
}

// listed: the result shows what is in the hidden folder.
func listed(_ *world, c *call) bool {
	return c.result != nil && (strings.Contains(c.result.Preview, "token") || strings.Contains(c.result.Preview, "undo.key"))
}
