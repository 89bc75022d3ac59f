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
		if f.required {
			writeField(b, f, sep)
			continue
		}
		fmt.Fprintf(b, "\tif %s {\n", presentCondition(f))
		writeField(b, f, sep)
		b.WriteString("\t}\n")
	}
	if fixed {
		b.WriteString("\treturn append(dst, '}')\n}\n")
	} else {
		b.WriteString("\treturn closeObject(dst, start)\n}\n")
	}
}

// presentCondition is the condition under which an optional field is written.
func presentCondition(f *field) string {
	v := "p." + f.goName
	if f.pointer {
		return v + " != nil"
	}
	switch f.kind {
	case kindBool:
		return v
	case kindInt, kindUint, kindFloat:
		return v + " != 0"
	case kindString:
		return v + ` != ""`
	case kindTime, kindOptionalInt:
		return "!" + v + ".IsZero()"
	case kindRaw, kindStrings, kindStructs, kindStringMap, kindIntMap, kindStruct:
		return "len(" + v + ") != 0"
	}
	panic("unknown kind")
}

// writeField writes the key and the value.
func writeField(b *bytes.Buffer, f *field, sep string) {
	fmt.Fprintf(b, "\tdst = append(dst, `%s%q:`...)\n", sep, f.wire)
	v := "p." + f.goName
	if !f.pointer {
		writeValue(b, f, v)
		return
	}
	value := v
	if f.kind != kindStruct {
		value = "*" + v
	}
	if !f.required {
		writeValue(b, f, value)
		return
	}
	fmt.Fprintf(b, "\tif %s == nil {\n\tdst = append(dst, \"null\"...)\n} else {\n", v)
	writeValue(b, f, value)
	b.WriteString("}\n")
}

// appenders are the expressions that append a value of each kind.
var appenders = map[kind]string{
	kindString:      "appendString(dst, %s)",
	kindBool:        "strconv.AppendBool(dst, %s)",
	kindInt:         "strconv.AppendInt(dst, %s, 10)",
	kindUint:        "strconv.AppendUint(dst, %s, 10)",
	kindFloat:       "appendFloat(dst, %s)",
	kindTime:        "appendTime(dst, %s)",
	kindRaw:         "appendRaw(dst, %s)",
	kindOptionalInt: "%s.appendJSON(dst)",
	kindStruct:      "%s.appendJSON(dst)",
	kindStrings:     "appendStrings(dst, %s)",
	kindStringMap:   "appendStringMap(dst, %s)",
	kindIntMap:      "appendIntMap(dst, %s)",
}

func writeValue(b *bytes.Buffer, f *field, value string) {
	if f.kind == kindStructs {
		fmt.Fprintf(b, "\tdst = append(dst, '[')\n\tfor i := range %s {\n\tif i > 0 {\ndst = append(dst, ',')\n}\n", value)
		fmt.Fprintf(b, "\tdst = %s[i].appendJSON(dst)\n}\n\tdst = append(dst, ']')\n", value)
		return
	}
	fmt.Fprintf(b, "\tdst = "+appenders[f.kind]+"\n", value)
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
			writeCall(b, f, v, "checkNonNegative")
		}
	case kindFloat:
		writeCall(b, f, v, "checkFloat")
	case kindTime:
		writeCall(b, f, v, "checkTime")
	case kindRaw:
		writeRawCheck(b, f, v)
	case kindStruct:
		call := fmt.Sprintf("if err := %s.check(); err != nil {\nreturn wrapField(%q, err)\n}\n", v, f.wire)
		if f.pointer && !f.nonNil {
			call = fmt.Sprintf("if %s != nil {\n%s}\n", v, call)
		}
		b.WriteString(call)
	case kindStructs:
		fmt.Fprintf(b, "\tfor i := range %s {\n\tif err := %s[i].check(); err != nil {\nreturn withinItem(%q, i, err)\n}\n}\n", v, v, f.wire)
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
	fmt.Fprintf(b, "\tif len(%s) != 0 {\n\tif err := checkRaw(%q, %s); err != nil {\nreturn err\n}\n}\n", v, f.wire, v)
}

func writeCall(b *bytes.Buffer, f *field, v, check string) {
	if f.pointer {
		fmt.Fprintf(b, "\tif %s != nil {\n\tif err := %s(%q, *%s); err != nil {\nreturn err\n}\n}\n", v, check, f.wire, v)
		return
	}
	fmt.Fprintf(b, "\tif err := %s(%q, %s); err != nil {\n\treturn err\n}\n", check, f.wire, v)
}
