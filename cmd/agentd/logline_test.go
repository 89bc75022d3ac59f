package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/cmd/agentd/internal/terminal"
)

func TestLogLines(t *testing.T) {
	at := time.Date(2026, 11, 18, 3, 4, 5, 600, time.UTC)
	day := at.Local().Format(time.DateTime)
	stamp := `{"time":"` + at.Format(time.RFC3339Nano) + `",`
	for name, tt := range map[string]struct{ line, want string }{
		"fields":         {stamp + `"level":"INFO","msg":"ready","url":"http://x","pid":7}`, day + " INFO  ready url=http://x pid=7"},
		"in their order": {stamp + `"level":"WARN","msg":"slow","z":true,"a":null}`, day + " WARN  slow z=true a=null"},
		"spaces":         {stamp + `"level":"ERROR","msg":"it failed","error":"no such file","empty":""}`, day + ` ERROR it failed error="no such file" empty=""`},
		"groups":         {stamp + `"level":"DEBUG","msg":"m","g":{"a":[1,2]}}`, day + ` DEBUG m g={"a":[1,2]}`},
		"no time":        {`{"msg":"m","level":"NOTICE"}`, " NOTICE m"},
		"escapes":        {stamp + `"level":"INFO","msg":"a\u001b[31mb","k\u001b":"c\u0007d"}`, day + " INFO  a[31mb k=cd"},
		"text":           {"time=x level=INFO msg=ready", "time=x level=INFO msg=ready"},
		"a crash":        {"panic: \x1b]0;title\x07 it", "panic: ]0;title it"},
		"cut":            {`{"msg":"it begins`, `{"msg":"it begins`},
		"cut in between": {`{"msg":"m","a":`, `{"msg":"m","a":`},
		"more behind it": {`{"msg":"m"} and more`, `{"msg":"m"} and more`},
		"of another":     {`{"a":1}`, `{"a":1}`},
		"a list":         {`["msg"]`, `["msg"]`},
		"nothing":        {"", ""},
	} {
		var out strings.Builder
		p := &logPrinter{to: &out, Ink: terminal.NoColour}
		for _, b := range []byte(tt.line) { // however it arrives
			if _, err := p.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if out.Len() > 0 {
			t.Errorf("%s: written before its end: %q", name, out.String())
		}
		if err := p.writeUnended(); err != nil {
			t.Error(err)
		}
		if got := strings.TrimSuffix(out.String(), "\n"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestLogsAtATerminal: a person reads lines in colour, and goes on reading when a server
// has begun a new log.
func TestLogsAtATerminal(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.output("run", "hello")
	log := filepath.Join(p.home, ".local", "share", "agentd", logFile)
	c := atTerminal(t, 200, 40, p.command("daemon", "logs", "--follow"))
	c.see("INFO  ready url=")
	writes := func(path, level, text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, `{"time":"2026-11-18T03:04:05Z","level":%q,"msg":%q}`+"\n", level, text)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	writes(log, "WARN", "said before")
	c.see("WARN  said before")
	writes(log, "WARN", "said last")
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	writes(log, "ERROR", "said by the next")
	c.see("ERROR said by the next")
	c.see("WARN  said last")
	writes(log, "ERROR", "and so on")
	c.see("ERROR and so on")
	for _, want := range []string{"\x1b[33mWARN ", "\x1b[31mERROR"} {
		if !strings.Contains(c.raw.String(), want) {
			t.Errorf("%q isn't there: %q", want, c.raw.String())
		}
	}
	c.typing("\x03")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out := p.output("daemon", "logs", "--json", "--lines", "1"); out != `{"time":"2026-11-18T03:04:05Z","level":"ERROR","msg":"and so on"}`+"\n" {
		t.Errorf("as it stands there: %s", out)
	}
}
