// Package harbor reads and writes the files of Harbor: task folders, rewards, the
// results of trials and jobs, and manifests of artifacts.
//
// # Contract
//
// The package knows the files and nothing of agents or of this runtime. Readers
// take what Harbor writes: unknown members and keys are passed over, older
// versions of task.toml are accepted, and a mistake is named with its file. Scores
// are read as they stand and never computed. Writers give the layout in which
// Harbor keeps jobs, so that its viewers find what they look for; see [Layout].
//
// # Concurrency
//
// The functions share nothing but the file system.
package harbor
