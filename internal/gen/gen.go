// Package gen holds what is generated from agentd's catalogues and served to
// others: the JSON Schemas of all events and their types for TypeScript.
//
// The files under schemas and types, like the generated Go files and reference
// pages elsewhere, are written by the command in the folder generate; nothing
// in them is edited by hand. The package is read-only and safe for concurrent
// use.
package gen

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed schemas/*.json
var schemas embed.FS

//go:embed types/agentd.ts
var typeScript []byte

// schemaSuffix ends the name of every schema's file.
const schemaSuffix = ".schema.json"

// Schemas returns the folder of the JSON Schemas, all draft 2020-12:
// "event.schema.json" for any event and "event.<family>.schema.json" for each
// family. They refer to each other by relative name.
func Schemas() fs.FS {
	sub, err := fs.Sub(schemas, "schemas")
	if err != nil {
		// Only a name that is no valid path fails, and this one is.
		panic(err)
	}
	return sub
}

// Schema returns the schema with the given name, with or without the suffix
// ".schema.json".
func Schema(name string) ([]byte, bool) {
	data, err := fs.ReadFile(Schemas(), strings.TrimSuffix(name, schemaSuffix)+schemaSuffix)
	return data, err == nil
}

// TypeScript returns the source of the types for TypeScript. The bytes are the
// caller's.
func TypeScript() []byte { return append([]byte(nil), typeScript...) }
