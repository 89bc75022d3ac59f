package gen

import (
	_ "embed"
	"slices"
)

//go:embed openapi.json
var openAPI []byte

//go:embed catalog.json
var catalog []byte

//go:embed types/commands.ts
var commandTypes []byte

// OpenAPI returns the OpenAPI 3.1 document of the HTTP interface. The bytes are
// the caller's.
func OpenAPI() []byte { return slices.Clone(openAPI) }

// Catalog returns the event and command catalogue as a JSON object with the
// members events and commands. The bytes are the caller's.
func Catalog() []byte { return slices.Clone(catalog) }

// CommandTypeScript returns the source of the commands' types for TypeScript; it
// imports that of [TypeScript] as "./agentd". The bytes are the caller's.
func CommandTypeScript() []byte { return slices.Clone(commandTypes) }
