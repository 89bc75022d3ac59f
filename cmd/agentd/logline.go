package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/terminal"
)

// logPrinter writes the lines of a server's log as people read them. What is no line of
// JSON, such as the last words of a program that crashed, is written as it is, without
// what could drive a terminal.
type logPrinter struct {
	terminal.Ink
	to io.Writer
	// raw says that lines are written as they stand in the file.
	raw bool
	// rest is the beginning of a line whose end isn't written yet.
	rest []byte
}

// Write implements [io.Writer]. It writes the lines that are whole.
func (p *logPrinter) Write(data []byte) (int, error) {
	if p.raw {
		return p.to.Write(data)
	}
	p.rest = append(p.rest, data...)
	end := bytes.LastIndexByte(p.rest, '\n') + 1
	var out strings.Builder
	for line := range bytes.Lines(p.rest[:end]) {
		out.WriteString(p.line(bytes.TrimSuffix(line, []byte("\n"))) + "\n")
	}
	p.rest = append([]byte(nil), p.rest[end:]...)
	if _, err := io.WriteString(p.to, out.String()); err != nil {
		return 0, err
	}
	return len(data), nil
}

// writeUnended writes what is left of a line that was never ended.
func (p *logPrinter) writeUnended() error {
	if len(p.rest) == 0 {
		return nil
	}
	_, err := p.Write([]byte("\n"))
	return err
}

// logField is a member of a line, in the order of the line.
type logField struct {
	name  string
	value json.RawMessage
}

// line is one line of the log.
func (p *logPrinter) line(line []byte) string {
	fields, isLog := logFields(line)
	if !isLog {
		return terminal.Plain(string(line))
	}
	var at, level, text string
	var rest strings.Builder
	for _, f := range fields {
		value := logValue(f.value)
		switch f.name {
		case "time":
			if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
				value = t.Local().Format(time.DateTime)
			}
			at = value
		case "level":
			level = value
		case "msg":
			text = value
		default:
			if value == "" || strings.ContainsAny(value, " \t\n\"=") && value[0] != '{' && value[0] != '[' {
				value = strconv.Quote(value)
			}
			rest.WriteString(" " + p.Paint(terminal.Dim, terminal.Plain(f.name)+"=") + terminal.Plain(value))
		}
	}
	colour := map[string]string{"DEBUG": terminal.Dim, "WARN": terminal.Yellow, "ERROR": terminal.Red}[level]
	word := terminal.Plain(level) + strings.Repeat(" ", max(5-len(level), 0))
	if colour != "" {
		word = p.Paint(colour, word)
	}
	return p.Paint(terminal.Dim, terminal.Plain(at)) + " " + word + " " + terminal.Plain(text) + rest.String()
}

// logFields takes a line of JSON apart; false if it is none that a log has written.
func logFields(line []byte) (fields []logField, ok bool) {
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	hasText := false
	for d.More() {
		t, err := d.Token()
		name, isName := t.(string)
		var value json.RawMessage
		if err != nil || !isName || d.Decode(&value) != nil {
			return nil, false
		}
		hasText = hasText || name == "msg"
		fields = append(fields, logField{name, value})
	}
	if _, err := d.Token(); err != nil || !hasText {
		return nil, false
	}
	_, err := d.Token()
	return fields, errors.Is(err, io.EOF)
}

// logValue is a value as text: a string without its quotes, the rest as it stands there.
func logValue(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text
	}
	return string(raw)
}
