// Package config is agentd's configuration: one table of settings, and the
// values that hold after the defaults, a file, the environment and flags were
// laid over one another.
//
// # Contract
//
// [Table] is the only place where a setting is declared. Parsing, checking,
// "agentd config show" and the reference page follow from it. A key of the file
// that the table doesn't have, a value of the wrong type and a key that is given
// twice are errors with line and column ([Error]); nothing is ignored.
//
// [Load] reads nothing but the file that it is told to read and the environment
// variables that the table names. Keys of providers are never part of a
// configuration: it holds the names of the variables that they are in.
//
// Relative paths are left as they are: they mean what they mean to the process,
// whose working directory they are relative to.
package config
