// Package permission decides whether a tool call may run: modes, rules, grants
// and a hook's opinion become one [Decision], with the reason in words.
//
// # Contract
//
// [Decide] is a function of its [Question] alone: no files, no clock, no
// environment. The caller says what it knows (whether a person can be asked, what the
// kernel enforces, what time it is, where symbolic links lead), and records the
// answer before anything runs.
//
// The strictest of these wins:
//
//  1. A deny rule denies, in every mode, regardless of hooks and grants.
//  2. A hook's deny or block denies.
//  3. In mode plan everything but a read is denied.
//  4. An ask rule, a rule that might match (see below), a change to what bounds the
//     agent, a hook's ask and a request to leave the sandbox ask, even if something
//     else allows.
//  5. An allow rule allows, then a hook's allow, then the mode decides.
//
// An ask that a [Grant] answers is an allow. An ask that can't be answered (the
// modes never and plan, or a question that isn't Interactive) is a denial that
// says so: nothing waits for a person who isn't there. That applies to request_input
// too, which is a question itself. The one thing that mode plan asks about is the
// plan (present_plan), and nothing but the answer to that question allows it.
//
// A rule for the shell is checked against every simple command of the line, in any
// form in which the shell would run it (see [Analyse]). Where it is unclear what runs
// (a computed command name, text piped into a shell, a line that can't be parsed), a
// deny or an ask rule with a pattern might match, so it asks. The same goes for a word
// that is known only at run time, where it could be an option of a program whose
// options can run something. An allow rule covers the commands that it matches,
// including those that only read; a line is allowed if every command of it is covered
// or runs by itself in the mode. What an allowed program does (a script on disk, make,
// a test suite) is not visible here: [Guard] checks what it starts, and [Cover] says
// which files it must not see, inside the sandbox.
//
// Patterns: over commands and inputs "*" is any text, including slashes and
// spaces, and a pattern that ends in " *" also matches the command without
// arguments: "git push *" means every git push. Over paths "*" stays within a folder and
// "**" crosses; a pattern is relative to the workspace unless it begins with a
// slash, case matters, and a deny or ask rule matches a path by its name or by its
// target, while an allow rule needs both. A rule for files with a pattern also
// applies to shell lines: a redirection into a file is a write_file of it, one
// from a file a read_file (denied or asked as such), and a word that names such a
// file, or may expand to its name, asks. The input of other tools is compared in one
// form: names sorted, no spaces, characters unescaped.
//
// Adding a deny rule never allows more, and the order of rules is irrelevant.
//
// The time that a decision takes grows linearly with the line, the rules and their
// patterns.
//
// # Concurrency
//
// Everything here may be called by many goroutines; nothing keeps state.
package permission
