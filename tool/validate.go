package tool

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/event"
	"agentd/internal/clip"
)

const (
	// maxSchemaBytes bounds a schema: those of real tools are a few kilobytes.
	maxSchemaBytes = 256 << 10
	// maxSchemaWork bounds how many schemas are applied to one value, so that a
	// schema that doubles itself at each step can't stop the runtime.
	maxSchemaWork = 10_000
	// maxDocDepth bounds how deeply a document is nested.
	maxDocDepth = 200
	// schemaURL is the name that a schema is compiled under.
	schemaURL = "schema:///tool.json"
)

// Schema is a compiled JSON Schema. It may be used by many goroutines.
type Schema struct {
	compiled *jsonschema.Schema
	doc      any
	fast     *fastObject
}

// CompileSchema compiles the schema of a tool's input. References lead within the
// schema alone: nothing is ever loaded. A pattern that Go's regular expressions
// can't express is left to the tool, and a format is a hint, because servers
// write schemas for other validators than ours.
func CompileSchema(schema event.Raw) (*Schema, error) { return compileSchema(schema, false) }

// compileSchema compiles a schema. A strict one holds what it says: every pattern
// must compile, and formats are checked.
func compileSchema(schema event.Raw, strict bool) (_ *Schema, err error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		return nil, errors.New("the schema is empty")
	}
	if len(schema) > maxSchemaBytes {
		return nil, fmt.Errorf("the schema is %d bytes long; the maximum is %d", len(schema), maxSchemaBytes)
	}
	doc, err := decodeDoc(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is not valid JSON: %w", err)
	}
	defer func() {
		// What the compiler doesn't expect in a stranger's schema must not end us.
		if p := recover(); p != nil {
			err = fmt.Errorf("the schema can't be compiled: %v", p)
		}
	}()
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(lenientPattern)
	if strict {
		c.AssertFormat()
		c.UseRegexpEngine(strictPattern)
	}
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("the schema can't be compiled: %w", err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("the schema can't be compiled: %s", schemaFault(err))
	}
	if dynamic(compiled, map[*jsonschema.Schema]bool{}) {
		return nil, errors.New("the schema can't be used: $dynamicRef and $recursiveRef are not supported")
	}
	if costOf(compiled, nil) > maxSchemaWork {
		return nil, errors.New("the schema is too complex: it would be applied more than 10,000 times to one value")
	}
	return &Schema{compiled: compiled, doc: doc, fast: newFastObject(compiled)}, nil
}

// Validate checks a document. The error is an [*Error] of category invalid_input
// whose message names each place, what was expected there and what was given.
func (s *Schema) Validate(doc event.Raw) error {
	if s.fast != nil && s.fast.accepts(doc) {
		return nil
	}
	v, err := decodeDoc(doc)
	if err != nil {
		return Errorf(InvalidInput, "not valid JSON: %v", err)
	}
	return s.validate(v)
}

func (s *Schema) validate(doc any) error {
	if costOf(s.compiled, doc) > maxValidation {
		return Errorf(InvalidInput, "%v", errTooCostly)
	}
	err := s.compiled.Validate(doc)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return Errorf(InvalidInput, "%v", err)
	}
	return s.validationError(doc, ve)
}

// ValidateOutput checks a document against a schema: an answer to request_input,
// or the structured output of a turn. Formats count, and a pattern must be one
// that can be checked. The error is an [*Error] of category invalid_input; one
// about the schema itself says so.
func ValidateOutput(schema, doc event.Raw) error {
	s, err := compileSchema(schema, true)
	if err != nil {
		return Errorf(InvalidInput, "%v", err)
	}
	return s.Validate(doc)
}

// CheckSchema says what is wrong with a schema that [ValidateOutput] is to use,
// if something is.
func CheckSchema(schema event.Raw) error {
	_, err := compileSchema(schema, true)
	return err
}

// Schemas compiles each schema once and keeps a bounded number, those used last.
// Equal schemas of different tools are one. It may be used by many goroutines.
type Schemas struct {
	limit int

	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*list.Element
	order *list.List // of *cachedSchema, the one used last in front
}

type cachedSchema struct {
	key [sha256.Size]byte
	// once compiles it outside the lock of the cache.
	once   sync.Once
	schema *Schema
	err    error
}

// NewSchemas returns a cache for at most limit schemas; 0 is 1,024.
func NewSchemas(limit int) *Schemas {
	if limit <= 0 {
		limit = 1024
	}
	return &Schemas{limit: limit, byKey: make(map[[sha256.Size]byte]*list.Element), order: list.New()}
}

// schemas are those of all registries of the process: the built-in tools are the same
// in all of them, and compiling theirs takes longer than all else that makes one.
var schemas = NewSchemas(0)

// Compile returns a tool's schema compiled, or why it can't be. A failure is kept
// too: a schema that doesn't compile won't do so the next time.
func (c *Schemas) Compile(schema event.Raw) (*Schema, error) {
	key := sha256.Sum256(schema)
	c.mu.Lock()
	e := c.byKey[key]
	if e == nil {
		e = c.order.PushFront(&cachedSchema{key: key})
		c.byKey[key] = e
		if c.order.Len() > c.limit {
			last := c.order.Back()
			delete(c.byKey, last.Value.(*cachedSchema).key)
			c.order.Remove(last)
		}
	} else {
		c.order.MoveToFront(e)
	}
	entry := e.Value.(*cachedSchema)
	c.mu.Unlock()
	entry.once.Do(func() { entry.schema, entry.err = CompileSchema(schema) })
	return entry.schema, entry.err
}

// Len is the number of schemas in the cache.
func (c *Schemas) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}

// noLoader refuses to load what a schema refers to.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of the schema, and nothing is loaded", quoteName(url))
}

// decodeDoc decodes one JSON value, with numbers as they are written. A name
// twice in an object is an error, because two readers could take a different one
// of the two; so is text that isn't UTF-8.
func decodeDoc(doc []byte) (any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(doc))
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, docFault(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the end of the JSON value")
	}
	return v, nil
}

func decodeValue(d *jsontext.Decoder, depth int) (any, error) {
	if depth > maxDocDepth {
		return nil, fmt.Errorf("nested more than %d levels deep", maxDocDepth)
	}
	tok, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '{':
		return decodeObject(d, depth)
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
	case '"':
		return tok.String(), nil
	case '0':
		return parseNumber(tok.String())
	case 't', 'f':
		return tok.Bool(), nil
	default:
		return nil, nil
	}
}

func decodeObject(d *jsontext.Decoder, depth int) (any, error) {
	m := map[string]any{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if m[key], err = decodeValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return m, err
}

// parseNumber keeps a number's text. The validator computes with exact fractions, so
// one with a huge exponent would fill the memory.
func parseNumber(s string) (any, error) {
	if i := strings.IndexAny(s, "eE"); len(s) > 400 || i >= 0 && len(s)-i > 5 {
		return nil, fmt.Errorf("the number %s is too large", clip.Text(s, 40))
	}
	return json.Number(s), nil
}

// docFault says what is wrong with JSON without naming the package that found it.
func docFault(err error) error {
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return errors.New("it ends in the middle")
		}
		return err
	}
	cause := "syntax error"
	if syntactic.Err != nil {
		cause = syntactic.Err.Error()
	}
	if errors.Is(syntactic.Err, io.ErrUnexpectedEOF) {
		cause = "it ends in the middle"
	}
	if at := string(syntactic.JSONPointer); at != "" {
		return fmt.Errorf("%s at byte %d, in %s", cause, syntactic.ByteOffset, clip.Text(at, 100))
	}
	return fmt.Errorf("%s at byte %d", cause, syntactic.ByteOffset)
}
