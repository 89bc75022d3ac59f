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
// The strictest voice wins:
//
//  1. A deny rule denies, in every mode, whatever a hook or a grant says.
//  2. A hook's deny or block denies.
//  3. In mode plan everything but a read is denied.
//  4. An ask rule, a rule that can't be told to miss (see below), a change to what
//     bounds the agent, a hook's ask and the wish to leave the sandbox ask, whatever
//     allows otherwise.
//  5. An allow rule allows, then a hook's allow, then the mode decides.
//
// An ask that a [Grant] answers is an allow. An ask that can't be answered (the
// modes never and plan, or a question that isn't Interactive) is a denial that
// says so: nothing waits for a person who isn't there. That holds for request_input
// too, which is a question itself. The one thing that mode plan asks about is the
// plan (present_plan), and nothing but the answer to that question allows it.
//
// A rule for the shell is checked against every simple command of the line, in
// whatever form the shell would run it (see [Analyse]). Where what runs can't be
// known (a computed command name, text piped into a shell, a line that can't be
// parsed), a deny or an ask rule with a pattern may or may not match: then it
// asks. So is a word that is known only when it runs, wherever it could be an option
// of a program whose options can run something. An allow rule covers the commands
// that it matches, those that only read included; a line is allowed if every command
// of it is covered or runs by itself in the mode. What a program does that is itself
// allowed to run (a script on disk, make, a test suite) is not seen here: [Guard]
// judges what it starts, and [Cover] says which files it must not see, inside the
// sandbox.
//
// Patterns: over commands and inputs "*" is any text, slashes and blanks
// included, and a pattern that ends in " *" takes the command without arguments
// too: "git push *" means every git push. Over paths "*" stays within a folder and
// "**" crosses; a pattern is relative to the workspace unless it begins with a
// slash, case counts, and a deny or ask rule hits a path by its name or by where
// it leads, while an allow rule needs both. A rule for files with a pattern also
// speaks about shell lines: a redirection into a file is a write_file of it, one
// from a file a read_file (denied or asked as such), and a word that names such a
// file, or may become one that does, asks. The input of other tools is compared in one form: names sorted, no
// blanks, characters unescaped.
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
