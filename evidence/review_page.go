package evidence

import (
	htmltemplate "html/template"
	"strings"
	"text/template"
)

// plainLine makes text that others wrote one line of Markdown that means itself:
// it can't begin a heading, a link, a picture or a tag.
func plainLine(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\n' || c == '\r' || c == '\t':
			b.WriteByte(' ')
		case c < ' ' || c == 0x7f:
		case strings.ContainsRune("\\`*_{}[]<>()#+!|~&$", c):
			b.WriteByte('\\')
			b.WriteRune(c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// markdownPage is a review as Markdown.
var markdownPage = template.Must(template.New("review").Funcs(template.FuncMap{"line": plainLine, "shown": func(s string) string { return indent(fenced("diff", s)) }, "json": func(s string) string { return indent(fenced("json", s)) }}).Parse(
	`# Review of {{line .Scope.SessionID}}{{with .Title}}: {{line .}}{{end}}

{{with .Scope.ThreadID}}Thread {{line .}}. {{end}}{{with .Scope.TurnID}}Turn {{line .}}. {{end}}{{with .Scope.TaskID}}Task {{line .}}. {{end -}}
Exported {{.ExportedAt.Format "2006-01-02 15:04:05 UTC"}} as {{line .EvidenceID}} by runtime {{line .RuntimeCorrelation.RuntimeID}}. Each statement is linked to the event that it rests on.
{{range .Chapters}}
## {{.Title}}
{{range $s := .Statements}}
- {{line .Says}} ({{with .EventID}}[{{line .}}](#fact-{{$s.Sequence}}), {{end}}fact {{.Sequence}}, {{.At.Format "15:04:05"}}{{range .Refs}}, {{line .}}{{end}})
{{- with .Diff}}

{{shown .}}
{{end}}
{{- else}}
Nothing.
{{- end}}
{{with .Left}}
{{.}} more are not shown.
{{end}}{{end}}
## The facts

What the statements rest on, as it is stored; long ones are cut.
{{range .Facts}}
- <a id="fact-{{.Sequence}}"></a>fact {{.Sequence}}, {{line (print .Type)}}, {{line .EventID}}, {{.At.Format "2006-01-02 15:04:05 UTC"}}

{{json .Text}}
{{end}}`))

// htmlPage is a review as a page without scripts and without anything from
// elsewhere.
var htmlPage = htmltemplate.Must(htmltemplate.New("review").Parse(
	`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Review of {{.Scope.SessionID}}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1d2430; background: #fff; }
li, details { margin: .3rem 0; }
:target { outline: 2px solid #c98a00; outline-offset: 2px; }
pre { overflow-x: auto; padding: .5rem .75rem; background: #f2f4f7; font-size: 13px; }
small, small a { color: #5a6472; }
@media (prefers-color-scheme: dark) { body { color: #e4e8ee; background: #14181f; } pre { background: #1e2530; } small, small a { color: #9aa6b5; } }
</style>
</head>
<body>
<h1>Review of {{.Scope.SessionID}}{{with .Title}}: {{.}}{{end}}</h1>
<p>{{with .Scope.ThreadID}}Thread {{.}}. {{end}}{{with .Scope.TurnID}}Turn {{.}}. {{end}}{{with .Scope.TaskID}}Task {{.}}. {{end}}
Exported {{.ExportedAt.Format "2006-01-02 15:04:05 UTC"}} as {{.EvidenceID}} by runtime {{.RuntimeCorrelation.RuntimeID}}. Each statement is linked to the event that it rests on.</p>
{{range .Chapters}}{{$name := .Name}}<h2>{{.Title}}</h2>
{{if .Statements}}<ul>
{{range $i, $s := .Statements}}<li id="{{$name}}-{{$i}}">{{$s.Says}} <small>{{with $s.EventID}}<a href="#fact-{{$s.Sequence}}">{{.}}</a>, {{end}}fact {{$s.Sequence}}, <time datetime="{{$s.At.Format "2006-01-02T15:04:05Z07:00"}}">{{$s.At.Format "15:04:05"}}</time>{{range $s.Refs}}, {{.}}{{end}}</small>{{with $s.Diff}}<pre>{{.}}</pre>{{end}}</li>
{{end}}</ul>{{else}}<p>Nothing.</p>{{end}}
{{with .Left}}<p>{{.}} more are not shown.</p>{{end}}
{{end}}<h2>The facts</h2>
<p>What the statements rest on, as it is stored; long ones are cut.</p>
{{range .Facts}}<details id="fact-{{.Sequence}}"><summary>fact {{.Sequence}}, {{.Type}} <small>{{.EventID}}, <time datetime="{{.At.Format "2006-01-02T15:04:05Z07:00"}}">{{.At.Format "15:04:05"}}</time></small></summary><pre>{{.Text}}</pre></details>
{{end}}</body>
</html>
`))
