// Package stage is the first code that runs inside a sandbox: a new start of our
// own binary, or a fork of one, that puts itself into the boundaries and then starts
// the command.
//
// # Contract
//
// The parent starts /proc/self/exe with [Marker] in the environment, the
// namespaces of its choice, and a Unix stream socket as descriptor [ControlFD].
// It sends a [Spec], now or much later, and with it the command's files; the stage
// prepares mounts and network, answers that it is ready (or which step failed), and
// then waits. Only after the parent's word "go"
// does it restrict itself, start the command as its child and follow it: signals
// come over the socket, the exit status goes back over it. When the command ends,
// everything that it left behind is killed before the status is sent. When the
// socket ends, because the parent died, everything is killed too.
//
// The restrictions (capabilities, Landlock, seccomp) are those of one thread, and
// a child inherits them from the thread that forks it. So one process can be both
// the init of the new pid namespace and the one that prepares the command, and no
// second start of a Go program is paid for.
//
// # A program of system calls
//
// What a stage does to itself is decided before: [Spec] is compiled to a list of
// system calls with their arguments, and to what is to be done when one of them
// fails. Carrying that out needs no memory, no lock and no second thread, hence no
// runtime: so the process that does it need not be a Go program that was started
// properly.
//
// # The launcher
//
// That is used by a launcher (see [LauncherMode]): the binary is started once, forks
// a process that has given up almost all its memory, and ends. For each request that
// process forks a stage, with the namespaces that are asked for, whose parent is the
// launcher's own. Such a stage takes a compiled program instead of a spec and does
// everything else as above, by the code in forked_linux.go. It is the init of a pid
// namespace; for others, who find their descendants by reading /proc, the binary is
// started anew.
//
// Both kinds run the same programs, and tests hold them to look the same from inside.
//
// # Why it runs in an init function
//
// A program that links a store, protocols and a terminal initialises its packages
// for some milliseconds before main begins, each time a command is started. The
// order of initialisation is by dependencies and then by import path, and this
// package imports nothing but syscall and a few leaves of the standard
// library, so its init function runs before all of that. It does nothing unless
// the marker is there. Keep it so: no os, fmt, net or x/sys here.
package stage
