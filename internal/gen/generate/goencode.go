package main

import (
	"bytes"
	"fmt"
	"strings"
)

// goEncoders writes appendJSON and check for every payload and nested struct.
func goEncoders(m *model) (files, error) {
	var body bytes.Buffer
	for _, s := range m.structs {
		writeAppend(&body, s)
		writeCheck(&body, s)
	}
	var b bytes.Buffer
	b.WriteString(goHeader)
	b.WriteString("\nimport \"strconv\"\n")
	b.Write(body.Bytes())
	return goFile("event/encode_gen.go", b.Bytes())
}

// writeAppend writes the encoder of one struct. Where the first field is always
// there, commas are part of the keys; otherwise every field has a leading comma
// and closeObject turns the first one into the brace.
func writeAppend(b *bytes.Buffer, s *structInfo) {
	fmt.Fprintf(b, "\nfunc (p *%s) appendJSON(dst []byte) []byte {\n", s.name)
	fixed := len(s.fields) > 0 && s.fields[0].required
	if !fixed {
		b.WriteString("\tstart := len(dst)\n")
	}
	for i := range s.fields {
		f := &s.fields[i]
		sep := ","
		if fixed && i == 0 {
			sep = "{"
		}
		writeField(b, f, fmt.Sprintf("`%s%q:`", sep, f.wire))
	}
	if fixed {
		b.WriteString("\treturn append(dst, '}')\n}\n")
	} else {
		b.WriteString("\treturn closeObject(dst, start)\n}\n")
	}
}

// writeField writes the line that appends a field's key and value.
func writeField(b *bytes.Buffer, f *field, key string) {
	v := "p." + f.goName
	switch {
	case !f.required && f.pointer && f.kind != kindStruct:
		fmt.Fprintf(b, "\tif %s != nil {\n\tdst = %s\n}\n", v, fmt.Sprintf(appenders[f.kind], key, "*"+v))
	case !f.required:
		fmt.Fprintf(b, "\tdst = %s(dst, %s, %s)\n", optionalAppenders[f.kind], key, v)
	case f.pointer && f.kind == kindStruct:
		fmt.Fprintf(b, "\tdst = appendNullable(append(dst, %s...), %s)\n", key, v)
	case f.pointer:
		fmt.Fprintf(b, "\tif %s == nil {\n\tdst = append(append(dst, %s...), \"null\"...)\n} else {\n\tdst = %s\n}\n", v, key, fmt.Sprintf(appenders[f.kind], key, "*"+v))
	default:
		fmt.Fprintf(b, "\tdst = "+appenders[f.kind]+"\n", key, v)
	}
}

// appenders are the expressions that append a key and a value of each kind.
var appenders = map[kind]string{
	kindString:    "appendString(append(dst, %s...), %s)",
	kindBool:      "strconv.AppendBool(append(dst, %s...), %s)",
	kindInt:       "strconv.AppendInt(append(dst, %s...), %s, 10)",
	kindUint:      "strconv.AppendUint(append(dst, %s...), %s, 10)",
	kindFloat:     "appendFloat(append(dst, %s...), %s)",
	kindTime:      "appendTime(append(dst, %s...), %s)",
	kindRaw:       "appendRaw(append(dst, %s...), %s)",
	kindStruct:    "appendValue(append(dst, %s...), &%s)",
	kindStructs:   "appendList(append(dst, %s...), %s)",
	kindStrings:   "appendStrings(append(dst, %s...), %s)",
	kindStringMap: "appendStringMap(append(dst, %s...), %s)",
	kindIntMap:    "appendIntMap(append(dst, %s...), %s)",
}

// optionalAppenders are the functions that append a key and a value, or nothing if the
// value is the zero value.
var optionalAppenders = map[kind]string{
	kindString:      "appendSetString",
	kindBool:        "appendSetBool",
	kindInt:         "appendSetInt",
	kindUint:        "appendSetUint",
	kindFloat:       "appendSetFloat",
	kindTime:        "appendSetTime",
	kindRaw:         "appendSetRaw",
	kindOptionalInt: "appendSetOptionalInt",
	kindStruct:      "appendSetObject",
	kindStructs:     "appendSetList",
	kindStrings:     "appendSetStrings",
	kindIntMap:      "appendSetIntMap",
}

// writeCheck writes the check of one struct's fields.
func writeCheck(b *bytes.Buffer, s *structInfo) {
	fmt.Fprintf(b, "\nfunc (p *%s) check() error {\n", s.name)
	if s.payload {
		b.WriteString("\tif p == nil {\n\treturn missingField(\"payload\")\n}\n")
	}
	for i := range s.fields {
		writeFieldCheck(b, &s.fields[i])
	}
	b.WriteString("\treturn nil\n}\n")
}

func writeFieldCheck(b *bytes.Buffer, f *field) {
	v := "p." + f.goName
	if f.nonNil {
		fmt.Fprintf(b, "\tif %s == nil {\n\treturn missingField(%q)\n}\n", v, f.wire)
	}
	switch f.kind {
	case kindString:
		writeStringCheck(b, f, v)
	case kindInt:
		if f.nonNegative {
			writeScalarCheck(b, f, v, "checkNonNegative")
		}
	case kindFloat:
		writeScalarCheck(b, f, v, "checkFloat")
	case kindTime:
		writeScalarCheck(b, f, v, "checkTime")
	case kindRaw:
		writeRawCheck(b, f, v)
	case kindStruct:
		if !f.pointer {
			v = "&" + v
		}
		writeCall(b, "checkObject(%q, %s)", f.wire, v)
	case kindStructs:
		writeCall(b, "checkList(%q, %s)", f.wire, v)
	case kindBool, kindUint, kindOptionalInt, kindStrings, kindStringMap, kindIntMap:
		// Every value fits.
	}
}

func writeStringCheck(b *bytes.Buffer, f *field, v string) {
	if f.nonEmpty {
		fmt.Fprintf(b, "\tif %s == \"\" {\n\treturn missingField(%q)\n}\n", v, f.wire)
	}
	if len(f.enum) == 0 {
		return
	}
	var cases []string
	if !f.required {
		cases = append(cases, `""`)
	}
	for _, e := range f.enum {
		cases = append(cases, fmt.Sprintf("%q", e))
	}
	fmt.Fprintf(b, "\tswitch %s {\n\tcase %s:\n\tdefault:\n\treturn notOneOf(%q, %s, %q)\n}\n",
		v, strings.Join(cases, ", "), f.wire, v, strings.Join(f.enum, " "))
}

// writeRawCheck demands a value where it is required; elsewhere none is fine.
func writeRawCheck(b *bytes.Buffer, f *field, v string) {
	if f.required {
		fmt.Fprintf(b, "\tif len(%s) == 0 {\n\treturn missingField(%q)\n}\n", v, f.wire)
	}
	writeCall(b, "checkRaw(%q, %s)", f.wire, v)
}

func writeScalarCheck(b *bytes.Buffer, f *field, v, check string) {
	if f.pointer {
		fmt.Fprintf(b, "\tif %s != nil {\n\tif err := %s(%q, *%s); err != nil {\nreturn err\n}\n}\n", v, check, f.wire, v)
		return
	}
	writeCall(b, check+"(%q, %s)", f.wire, v)
}

// writeCall writes a call whose error ends the check.
func writeCall(b *bytes.Buffer, call string, args ...any) {
	fmt.Fprintf(b, "\tif err := "+call+"; err != nil {\n\treturn err\n}\n", args...)
}
