// Package sandbox says what this kernel can enforce, and runs commands inside it.
//
// # Contract
//
// [Probe] tries each mechanism once and reports what works and why something
// doesn't. [Prepare] turns a [Profile] (what is wanted) and a [Report] (what is
// possible) into a [Plan]: per boundary the mechanism that will enforce it, and a
// sentence for everything that was requested and won't be enforced. Nothing is
// weakened silently: the caller can read the difference before it runs a plan, and if
// a step fails later, the command doesn't start.
//
// [Plan.Start] starts our own binary again, [Warm.Start] has a small process that it
// keeps for that fork one (see package stage, which needs no call in main). The new
// process is the init of its namespaces; it waits, so that the caller can make the
// process durable in its ledger, and runs the command after [Child.Go]. A command and
// everything it started end together: when the command exits, when [Child.Kill] is
// called, and when the parent dies for any reason.
//
// # What a profile means
//
// With namespaces the command sees the whole file system read-only, without set-uid
// programs and devices. Writable are the write roots (none in read_only), and a
// /tmp, /var/tmp and /dev/shm of its own that vanish with it. Hidden paths are
// covered. Of /dev there are the harmless devices, of /proc the processes of the
// namespace. All capabilities are gone, for root too: so root can't use files of
// other owners that the mode doesn't open to it. Landlock repeats the rules for
// files where the kernel has it, seccomp forbids what only attacks need (mounts,
// namespaces, io_uring, keys, modules, bpf, foreign system call tables).
//
// Network "deny" is a namespace with a loopback device of its own. Sockets of
// other families than IP and netlink can't be made in it, so that Unix sockets of
// other programs (a container engine's, for example) are out of reach; connected
// pairs of Unix sockets work. "proxy" is the same with one door: an HTTP proxy on
// the loopback device, which the variables HTTP_PROXY and HTTPS_PROXY name, and
// which lets through what the allowed hosts say. "allow" is the host's network.
//
// A namespace in which nothing made a socket is given to another command when all its
// processes have ended: the filter has the stage told of each socket before it is made.
// So is a control group of version 1 that its command left as new, under another name.
//
// Without namespaces Landlock limits files and seccomp forbids sockets; hidden
// paths are left out of what Landlock allows, unless a write root contains them. What
// that can't do is in [Plan.NotEnforced].
//
// danger_full_access has no boundary but limits, a clean environment, the end of
// the whole tree, and the cover of the hidden paths, which needs a mount namespace.
// That cover stops casual reads, not a determined attacker: a command with every
// other right can have another program read the files (a scheduled job, a service).
// For an ordinary user it costs set-uid programs such as sudo, for root the
// capabilities that get below a mount. [Plan.Exposed] names what can still be read.
//
// # Violations
//
// The kernel tells a process that something was refused, not us. [Classify] says
// what can be known: exactly for limits of control groups, signals and refusals of
// the proxy; by reading the command's last output for everything else. Where a command
// says nothing, [Plan.Withheld] compares what it names with the plan. The detail of a
// violation says which of these it is.
//
// # Speed
//
// Most of what a sandbox costs is new namespaces and a start of our binary. [Warm]
// pays for the second once: its first command starts a launcher beside it, a process
// of some hundred kilobytes without a Go runtime, which forks every further stage as
// a child of ours. And it pays for the first ahead of time: it keeps one stage that
// waits for its specification. BenchmarkTrue compares both ways with a bare
// start. For an ordinary user a new user namespace makes the kernel copy page
// tables, which takes longer the more memory a process uses; the launcher uses
// little. Where there is no launcher (it was killed three times, the kernel refuses,
// there is no pid namespace), stages are started as by Plan.Start.
//
// # Concurrency
//
// Reports and plans don't change and may be shared. A child's methods may be
// called from any goroutine. Each child has one goroutine that reads its socket
// and waits for its process, and with a proxy those of the proxy; [Child.Close]
// ends and awaits them.
package sandbox
