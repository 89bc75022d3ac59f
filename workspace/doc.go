// Package workspace takes changes of files back, without git.
//
// # Contract
//
// A [Vault] keeps the earlier contents of what tools change under a workspace,
// so that chat and files can be taken back together. A [Recorder] belongs to one
// tool call and yields the [event.FileChange] list of its result: file tools
// announce each path with [Recorder.Changing], commands are enclosed by
// [Recorder.Before] and [Recorder.After], which look at the tree. [Plan] works
// out from recorded changes and the files as they are now what a rollback does
// with each path; [Vault.Preview] tells it, [Vault.Apply] does it, [Vault.Diff]
// shows it as text.
//
// # Facts
//
// A change's Path is relative to the workspace, with slashes. AfterHash and Mode
// (permission bits with setuid, setgid and sticky) are the state after the
// change: "sha256:" and the sum of a file's content; "stat:" and its identity
// for a file that wasn't read; "link:" and the sum of a symbolic link's target;
// "dir"; "other"; empty for what is gone. BeforeRef is the state before, and
// where its content is kept. A created path has none. A change with a Note and
// without BeforeRef can't be taken back, and the Note says why. Folders are
// changes too: they are made, removed and given modes.
//
// # Bounds
//
// Contents are kept up to [Options].MaxFile bytes a file. Around commands the
// tree is looked at up to MaxFiles entries and 100 levels, and contents up to
// MaxBytes together, the smallest files first; if the tree is larger, each
// command's changes have one for "." whose Note says so. Folders called .git and
// node_modules, folders that can't be read, and what Exclude names are not looked
// at, and changes in them are not reported. What a .gitignore within the
// workspace ignores is looked at last (up to MaxFiles more entries) and reported,
// one line for each ignored folder, but its contents are not kept, except of
// files outside ignored folders that have at most KeepIgnored bytes (.env is
// one). A file that is held already stays held, whatever a .gitignore says later.
// Owners, times, extended attributes, hard links, devices and sockets are not
// kept, nor are names that aren't UTF-8; a restored file belongs to this process's
// user, and set-user-ID and set-group-ID bits of files don't come back. File tools are exact: of the bounds only
// MaxFile holds for them.
//
// A command's changes are the differences between two looks. What another program
// changes in between is taken for the command's; if it was another call of the
// same Vault, the Note says so. A file counts as unchanged if its size, times,
// inode and mode are, except within 50 ms of its last change, when it is read
// again. What a process in the background changes after its call ended is
// another program's change.
//
// # Secrecy
//
// Contents are exact, secrets included, and are encrypted before they reach the
// store or a disk. Sealing is a synthetic-IV construction: from the key HKDF
// derives one key for HMAC-SHA-256 and one for AES-256. The tag is the HMAC of
// the content; its first 16 bytes are the counter block for AES-CTR; the tag is
// stored before the ciphertext and checked on reading. It is deterministic, so
// equal contents are stored once; a reader of the store learns sizes, and which
// contents are equal, but nothing else. References to sealed contents begin with
// "undo:" and are no blob references, so that nothing serves them as outputs.
// AfterHash is a plain sum: a reader of the facts can test a guess of a content.
//
// Copies that commands might need are held in a file without a name, encrypted
// with a key that never leaves the process; only what was changed reaches the
// store.
//
// # Restoring
//
// Nothing outside the root is touched, and no symbolic link is followed. A path
// that someone else changed, between the removed turns or since, is a conflict
// and stays as it is, unless forced; folders are removed only when they are
// empty. Each file is replaced in one step. Apply may be interrupted at any
// point: the same call again leads to the same end.
//
// # Concurrency
//
// A Vault may be used by many goroutines, and many recorders may be at work in
// one workspace. Looks at the same workspace wait for each other. Apply must not
// run while tools of the same workspace do.
package workspace
