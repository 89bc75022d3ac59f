package main

import (
	"bytes"
	"fmt"
)

// goDecoders writes decodeJSON for every payload and nested struct: a reader of
// what the encoders write, which gives up at anything else.
func goDecoders(m *model) (files, error) {
	var b bytes.Buffer
	b.WriteString(goHeader)
	for _, s := range m.structs {
		writeDecode(&b, s)
	}
	return goFile("event/decode_gen.go", b.Bytes())
}

// writeDecode writes the reader of one struct. Keys may come in any order, but
// each at most once; an unknown one is left to encoding/json.
func writeDecode(b *bytes.Buffer, s *structInfo) {
	fmt.Fprintf(b, "\nfunc (p *%s) decodeJSON(s *scanner) bool {\n", s.name)
	b.WriteString("\tif !s.acceptByte('{') {\n\treturn false\n}\n\tif s.acceptByte('}') {\n\treturn true\n}\n\tfor seen := uint64(0); ; {\n")
	b.WriteString("\tvar bit uint64\n\tkey, ok := s.key()\n\tif !ok {\n\treturn false\n}\n\tswitch string(key) {\n")
	for i := range s.fields {
		f := &s.fields[i]
		fmt.Fprintf(b, "\tcase %q:\n\tbit = 1<<%d\n", f.wire, i)
		writeRead(b, f)
	}
	b.WriteString("\tdefault:\n\treturn false\n}\n")
	b.WriteString("\tif !ok || seen&bit != 0 {\n\treturn false\n}\n\tseen |= bit\n\tif !s.acceptByte(',') {\n\treturn s.acceptByte('}')\n}\n}\n}\n")
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

func writeRead(b *bytes.Buffer, f *field) {
	v := "p." + f.goName
	switch {
	case f.kind == kindStructs:
		fmt.Fprintf(b, "\tok = decodeList(s, &%s)\n", v)
	case f.kind == kindStruct && f.pointer:
		fmt.Fprintf(b, "\tif !s.null() {\n\t%s = new(%s)\n\tok = %s.decodeJSON(s)\n}\n", v, f.of.name, v)
	case f.kind == kindStruct:
		fmt.Fprintf(b, "\tok = %s.decodeJSON(s)\n", v)
	case f.pointer:
		fmt.Fprintf(b, "\tif !s.null() {\n\t%s = new(%s)\n\tok = s.%s(%s)\n}\n", v, scalarTypes[f.kind], readers[f.kind], v)
	case len(f.enum) > 0:
		writeReadEnum(b, f, v)
	default:
		fmt.Fprintf(b, "\tok = s.%s(&%s)\n", readers[f.kind], v)
	}
}

// scalarTypes are the types that a pointer can lead to.
var scalarTypes = map[kind]string{
	kindString: "string", kindBool: "bool", kindInt: "int64", kindUint: "uint64", kindFloat: "float64",
}

// writeReadEnum uses the constants of a closed set, which need no copy. A value
// outside the set is left to encoding/json: reading doesn't judge.
func writeReadEnum(b *bytes.Buffer, f *field, v string) {
	b.WriteString("\tvar value []byte\n\tif value, ok = s.plainString(); ok {\n\tswitch string(value) {\n")
	for _, e := range f.enum {
		fmt.Fprintf(b, "\tcase %q:\n\t%s = %q\n", e, v, e)
	}
	b.WriteString("\tdefault:\n\tok = false\n}\n}\n")
}
