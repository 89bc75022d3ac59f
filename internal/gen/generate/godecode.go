package main

import (
	"bytes"
	"fmt"
	"strings"
)

// goDecoders writes decodeField for every payload and nested struct: a reader of
// what the encoders write, which gives up at anything else.
func goDecoders(m *model) (files, error) {
	var b bytes.Buffer
	b.WriteString(goHeader)
	for _, s := range m.structs {
		writeDecode(&b, s)
	}
	return goFile("event/decode_gen.go", b.Bytes())
}

// writeDecode writes the reader of one struct's fields. Each has a bit, so that
// decodeObject finds a key that comes twice; an unknown key is left to encoding/json.
func writeDecode(b *bytes.Buffer, s *structInfo) {
	fmt.Fprintf(b, "\nfunc (p *%s) decodeField(s *scanner, key []byte) (bit uint64, ok bool) {\n\tswitch string(key) {\n", s.name)
	for i := range s.fields {
		f := &s.fields[i]
		fmt.Fprintf(b, "\tcase %q:\n\treturn 1<<%d, %s\n", f.wire, i, readExpression(f))
	}
	b.WriteString("\t}\n\treturn 0, false\n}\n")
}

// readers are the scanner's methods for each kind.
var readers = map[kind]string{
	kindString:      "text",
	kindBool:        "bool",
	kindInt:         "int",
	kindUint:        "uint",
	kindFloat:       "float",
	kindTime:        "time",
	kindRaw:         "raw",
	kindOptionalInt: "optionalInt",
	kindStrings:     "strings",
	kindStringMap:   "json",
	kindIntMap:      "json",
}

// readExpression reads one field, and says whether it could.
func readExpression(f *field) string {
	v := "&p." + f.goName
	switch {
	case f.kind == kindStructs:
		return fmt.Sprintf("decodeList(s, %s)", v)
	case f.kind == kindStruct && f.pointer:
		return fmt.Sprintf("decodePointer(s, %s)", v)
	case f.kind == kindStruct:
		return fmt.Sprintf("decodeObject(s, %s)", v)
	case f.pointer:
		return fmt.Sprintf("decodeScalar(s, %s, (*scanner).%s)", v, readers[f.kind])
	case len(f.enum) > 0:
		return fmt.Sprintf("s.enum(%s, %q)", v, strings.Join(f.enum, " "))
	}
	return fmt.Sprintf("s.%s(%s)", readers[f.kind], v)
}
