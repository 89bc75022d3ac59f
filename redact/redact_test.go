package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/redact"
)

// secrets gives, for each rule, secrets of its shape.
func secrets() map[string][]string {
	const upperNum = uppercase + numbers
	alnum := func(n int) string { return letters(mixed, n, n) }
	return map[string][]string{
		"agentd_token":       {"agentd_admin_" + alnum(43), "agentd_" + letters(lowercase+numbers, 26, 1) + "_" + alnum(43), "rt_" + alnum(43)},
		"aws_key":            {"AKIA" + letters(upperNum, 16, 3), "ASIA" + letters(upperNum, 16, 4)},
		"github_token":       {"ghp_" + alnum(36), "gho_" + alnum(36), "ghu_" + alnum(36), "ghs_" + alnum(36), "ghr_" + alnum(76), "github_pat_" + alnum(22) + "_" + alnum(59)},
		"gitlab_token":       {"glpat-" + alnum(20), "glrt-" + alnum(20), "gldt-" + alnum(20)},
		"slack_token":        {"xoxb-" + letters(numbers, 12, 1) + "-" + alnum(24), "xapp-1-A" + letters(upperNum, 10, 2) + "-" + letters(hexadec, 64, 5)},
		"slack_webhook":      {"hooks.slack.com/services/T" + letters(upperNum, 8, 1) + "/B" + letters(upperNum, 8, 2) + "/" + alnum(24)},
		"anthropic_key":      {"sk-ant-api03-" + alnum(93) + "AA"},
		"openai_key":         {"sk-proj-" + alnum(48), "sk-" + alnum(48), "sk-svcacct-" + alnum(60), "sk-test1234567890abcdefghijkl", "sk-" + lowercase + numbers},
		"google_key":         {"AIza" + alnum(35)},
		"google_token":       {"ya29." + alnum(60)},
		"google_secret":      {"GOCSPX-" + alnum(28)},
		"xai_key":            {"xai-" + alnum(80)},
		"groq_key":           {"gsk_" + alnum(52)},
		"huggingface_token":  {"hf_" + letters(lowercase+uppercase, 34, 7)},
		"stripe_key":         {"sk_live_" + alnum(24), "rk_test_" + alnum(24), "whsec_" + alnum(32)},
		"npm_token":          {"npm_" + alnum(36)},
		"pypi_token":         {"pypi-" + alnum(120)},
		"sendgrid_key":       {"SG." + alnum(22) + "." + alnum(43)},
		"digitalocean_token": {"dop_v1_" + letters(hexadec, 64, 9)},
		"shopify_token":      {"shpat_" + letters(hexadec, 32, 9)},
		"grafana_token":      {"glsa_" + alnum(32) + "_" + letters(hexadec, 8, 1)},
		"vault_token":        {"hvs." + alnum(90)},
		"tailscale_key":      {"tskey-auth-" + alnum(30)},
		"linear_key":         {"lin_api_" + alnum(40)},
		"age_key":            {"AGE-SECRET-KEY-1" + letters(upperNum, 58, 9)},
		"jwt":                {jwt()},
	}
}

func jwt() string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + enc.EncodeToString([]byte(`{"sub":"1234567890"}`)) + "." + letters(mixed, 43, 11)
}

func block(label, nl string) string {
	lines := []string{"-----BEGIN " + label + "-----"}
	for i := range 12 {
		lines = append(lines, letters(mixed+"+/", 64, 100+i))
	}
	return strings.Join(append(lines, "-----END "+label+"-----"), nl)
}

// surroundings are places in which a secret stands; %s is the secret.
var surroundings = []string{
	"%s", "key %s.", "export X=%s\n", `{"a":"%s"}`, `{"a":"{\"b\":\"%s\"}"}`, "line\\n%s\\nline", "a=1&b=%s&c=2", "x%%3D%s",
	"\x1b[32m%s\x1b[0m", `\u0026%s`, "curl -u %s:", "(%s)", "<%s>", "%s,%s", "`%s`", "é%sé",
}

func TestShapes(t *testing.T) {
	r := redact.New(redact.Options{})
	tried := map[string]bool{"value": true, "secret_key": true, "private_key": true, "url_password": true, "authorization": true, "assigned_secret": true}
	for rule, list := range secrets() {
		tried[rule] = true
		for _, secret := range list {
			for _, where := range surroundings {
				text := strings.ReplaceAll(strings.ReplaceAll(where, "%%", "%"), "%s", secret)
				got, found := r.Text(text)
				want := strings.ReplaceAll(strings.ReplaceAll(where, "%%", "%"), "%s", "[redacted:"+rule+"]")
				if got != want || !slices.Equal(found.Rules, []string{rule}) || found.Count != int64(strings.Count(where, "%s")) {
					t.Errorf("%s in %q: got %q %v", rule, where, got, found)
				}
			}
			// The failure beside it: only begun it is none.
			for _, not := range []string{secret[:8], secret[:8] + " " + secret[8:12]} {
				if got, _ := r.Text(not); got != not {
					t.Errorf("%s: %q is no secret, got %q", rule, not, got)
				}
			}
		}
	}
	for _, rule := range redact.Rules() {
		if !tried[rule] {
			t.Errorf("rule %s has no case", rule)
		}
	}
}

func TestBlocks(t *testing.T) {
	r := redact.New(redact.Options{})
	for _, label := range []string{"RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "ENCRYPTED PRIVATE KEY"} {
		for _, nl := range []string{"\n", "\r\n", `\n`, `\\n`, " "} {
			got, _ := r.Text("before " + block(label, nl) + " after")
			if want := "before [redacted:private_key] after"; got != want {
				t.Errorf("%s with line ends %q: %q", label, nl, got)
			}
		}
	}
	open, _, _ := strings.Cut(block("PRIVATE KEY", "\n"), "-----END")
	if got, _ := r.Text("a " + open + "and prose goes on."); got != "a [redacted:private_key] prose goes on." {
		t.Errorf("block without an end: %q", got)
	}
	for _, public := range []string{block("PUBLIC KEY", "\n"), block("CERTIFICATE", "\n"), "-----BEGIN something that never ends and is long enough to be decided about at all"} {
		if got, _ := r.Text(public); got != public {
			t.Errorf("no secret: %q became %q", public[:30], got)
		}
	}
}

func TestContexts(t *testing.T) {
	r := redact.New(redact.Options{})
	v := letters(mixed, 32, 21)
	for _, c := range []struct{ text, want string }{
		{"Authorization: Bearer " + v, "Authorization: Bearer [redacted:authorization]"},
		{"authorization: bearer " + v + "\r\nHost: a", "authorization: bearer [redacted:authorization]\r\nHost: a"},
		{`"Authorization": "Basic ` + base64.StdEncoding.EncodeToString([]byte("user:pass-word")) + `"`, `"Authorization": "Basic [redacted:authorization]"`},
		{"Authorization: token " + v, "Authorization: token [redacted:authorization]"},
		{"-H 'Authorization: Bearer " + v + "'", "-H 'Authorization: Bearer [redacted:authorization]'"},
		{"sent Bearer " + v + " to it", "sent Bearer [redacted:authorization] to it"},
		{"Basic " + base64.StdEncoding.EncodeToString([]byte("admin:letmein99!")), "Basic [redacted:authorization]"},
		{"postgres://app:hunter2@db:5432/x", "postgres://app:[redacted:url_password]@db:5432/x"},
		{"redis://:" + v + "@cache", "redis://:[redacted:url_password]@cache"},
		{"https://u:p%40ss@h/p?q", "https://u:[redacted:url_password]@h/p?q"},
		{"API_KEY=" + v, "API_KEY=[redacted:assigned_secret]"},
		{"export AWS_SECRET_ACCESS_KEY=\"" + v + "\"", "export AWS_SECRET_ACCESS_KEY=\"[redacted:assigned_secret]\""},
		{`"client_secret": "` + v + `",`, `"client_secret": "[redacted:assigned_secret]",`},
		{`{\"apiKey\":\"` + v + `\"}`, `{\"apiKey\":\"[redacted:assigned_secret]\"}`},
		{"password => '" + v + "'", "password => '[redacted:assigned_secret]'"},
		{"db.password: " + v, "db.password: [redacted:assigned_secret]"},
		{"//registry.example/:_authToken=" + v, "//registry.example/:_authToken=[redacted:assigned_secret]"},
		{"X-Api-Key: " + v, "X-Api-Key: [redacted:assigned_secret]"},
		{"token := \"" + v + "\"", "token := \"[redacted:assigned_secret]\""},
	} {
		got, found := r.Text(c.text)
		if got != c.want || found.Count != 1 {
			t.Errorf("%q\n got %q\nwant %q", c.text, got, c.want)
		}
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	r := redact.New(redact.Options{})
	hash := letters(hexadec, 64, 5)
	id := letters("0123456789abcdefghjkmnpqrstvwxyz", 26, 6)
	uuid := "0190c5a4-7f2e-7b11-9c3d-" + letters(hexadec, 12, 8)
	for _, text := range []string{
		"", "a", "ok", "sk-", "ghp_", "eyJ", "://", "AKIA", "token=", "password:",
		"sha256:" + hash, hash, hash[:40], uuid, `"outputRef":"sha256:` + hash + `"`,
		"sess_" + id, "turn_" + id, "tool_" + id, "req_" + id, `{"sessionId":"sess_` + id + `","resumeToken":"chan_` + id + `"}`,
		"token: " + uuid, "token: sha256:" + hash, "secret_ref = sha256:" + hash, `"integrity": "sha512-` + letters(mixed, 86, 3) + `=="`,
		"the password is required", "password: string", "token: String!", "const apiKey = process.env.API_KEY", `apiKey: os.Getenv("API_KEY")`,
		"API_KEY=${API_KEY}", "API_KEY=$MY_KEY_1A2B", "token: <your-token-1a2b3c>", "password: ********", "secret=xxxxxxxxxxxxxxxx", "token={{ .Values.token1x2y3z }}",
		"Authorization: Bearer $TOKEN", "Authorization: Bearer <token>", "Authorization: Bearer ${TOKEN}", "authorization: required", "Authorization header is missing",
		"bearer of bad news that goes on", "Bearer authentication_is_required_here", "basic understanding of things", "Basic configuration", "BASIC programming",
		"https://example.com/a:b@c", "https://user@example.com/x", "http://localhost:8700/v1/events?after=3", "postgres://user@host/db", "https://u:${PASS}@h/", "git@github.com:a/b.git", "ssh://git@h:22/x",
		"func tokenize(s string) []token { return nil }", "maxTokens: 128000", "inputTokens=1200, outputTokens=30", "tokenizer = cl100k_base2", "token_expires: 2026-11-15T08:30:00Z", "secret_version: 2024.01.15",
		"task-force-1 and risk-averse-people-2020-edition", "sk-fading-circle-container-wide-x", "sk-fadingcirclecontainerwide", `class="sk-cube sk-cube1-delay-animation"`,
		"ghp_short", "xoxb-this-is-not-a-token", "AKIAIOSFODNN", "AIzaTooShort", "npm_config_registry=https://registry.example", "npm_lifecycle_event=test",
		"pypi-publish", "hf_hub_download(repo_id)", "SG.com is a site", "hvs.something", "eyJust.some.words", "https://eyJ.example",
		"go: downloading golang.org/x/time v0.16.0", "h1:" + letters(mixed+"+/", 43, 7) + "=", "commit " + letters(hexadec, 40, 2),
		"data:image/png;base64," + letters(mixed+"+/", 200, 4), "/usr/lib/x86_64-linux-gnu/libsecret-1.so.0", "passwd: /etc/passwd2/file3a", "secretKeyRef:\n  name: db1-credentials2",
		"credentials = load_credentials_v2(path1)", "pwd=/srv/area51/project2", "PWD: ./a1b2c3d4e5/f6", "access_key = keys[i1].access2",
		"[redacted:value]", "token=[redacted:assigned_secret]", "Authorization: Bearer [redacted:authorization]",
	} {
		if got, found := r.Text(text); got != text || found.Any() {
			t.Errorf("%q became %q (%v)", text, got, found.Rules)
		}
	}
}

// disguises are ways in which a value can be written.
func disguises(v string) map[string]string {
	quoted, _ := json.Marshal(v)
	twice, _ := json.Marshal(string(quoted))
	return map[string]string{
		"plain":        v,
		"json":         string(quoted),
		"json in json": string(twice),
		"query":        url.QueryEscape(v),
		"path":         url.PathEscape(v),
		"base64":       base64.StdEncoding.EncodeToString([]byte(v)),
		"base64 +1":    base64.StdEncoding.EncodeToString([]byte("u" + v + "tail")),
		"base64 +2":    base64.StdEncoding.EncodeToString([]byte("u:" + v + "ta")),
		"base64url":    base64.RawURLEncoding.EncodeToString([]byte("xyz" + v)),
		"base64 lines": wrapped(base64.StdEncoding.EncodeToString([]byte(v)), 76),
		"PEM lines":    wrapped(base64.StdEncoding.EncodeToString([]byte(v)), 64),
		"hex":          hex.EncodeToString([]byte(v)),
		"HEX":          strings.ToUpper(hex.EncodeToString([]byte(v))),
	}
}

// wrapped breaks a text into lines, as the tools that encode base64 do.
func wrapped(s string, width int) string {
	var b strings.Builder
	for ; len(s) > width; s = s[width:] {
		b.WriteString(s[:width] + "\n")
	}
	return b.String() + s
}

func TestValuesInDisguise(t *testing.T) {
	for _, v := range []string{planted(1), letters(mixed, 200, 41), "pass phrase/with?odd&signs=\"<>\\+~é", "line one\nline two", "123456", "ab?cd/~", "ünïcödé"} {
		r := redact.New(redact.Options{Values: []string{v}})
		for name, form := range disguises(v) {
			got, found := r.Text("a " + form + " z")
			if !found.Any() || !slices.Contains(found.Rules, redact.RuleValue) {
				t.Errorf("%q as %s is not found in %q", v, name, form)
			}
			if strings.Contains(got, v) || strings.Contains(got, strings.Trim(form, `"`)) {
				t.Errorf("%q as %s: still there: %q", v, name, got)
			}
		}
	}
}

func TestValuesThatAreNotLookedFor(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{"", "short", " tiny \n", "redacted", "acted:value"}})
	for _, text := range []string{"short and tiny", "it was redacted", "[redacted:value]"} {
		if got, found := r.Text(text); got != text || found.Any() {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestOverlappingFindsAreOne(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{"abcdef", "defghi", "abcdefgh"}})
	got, found := r.Text("xabcdefghix abcdef")
	if got != "x[redacted:value]x [redacted:value]" || found.Count != 2 {
		t.Errorf("got %q %+v", got, found)
	}
}

func TestPatterns(t *testing.T) {
	r := redact.New(redact.Options{Patterns: []redact.Pattern{
		{Name: "badge", Keyword: "badge", Regexp: regexp.MustCompile(`(?i)badge no\. (\d{4})`), Group: 1},
		{Name: "unusable", Keyword: "x", Regexp: regexp.MustCompile(`x`)},
		{Name: "missing", Keyword: "missing"},
	}})
	for _, c := range []struct{ text, want string }{
		{"his Badge no. 1234, x missing", "his Badge no. [redacted:badge], x missing"},
		{"badge no.\n1234", "badge no.\n1234"},
		{"badge number 1234", "badge number 1234"},
	} {
		if got, _ := r.Text(c.text); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFound(t *testing.T) {
	a := redact.Found{Count: 2, Rules: []string{"b"}}
	b := redact.Found{Count: 1, Rules: []string{"a", "b", "c"}}
	sum := a.Add(b).Add(redact.Found{})
	if sum.Count != 3 || !slices.Equal(sum.Rules, []string{"a", "b", "c"}) || !slices.Equal(a.Rules, []string{"b"}) {
		t.Errorf("sum %+v, first %+v", sum, a)
	}
	if p := (redact.Found{}).Payload("", "tool"); p.Rules == nil || p.Where != "tool" {
		t.Errorf("payload %+v", p)
	}
}

func TestNothingFoundAllocatesNothing(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{planted(1)}})
	text := strings.Repeat(prose+code, 10)
	raw, err := json.Marshal(map[string]string{"text": strings.Repeat(prose, 10)})
	if err != nil {
		t.Fatal(err)
	}
	b := []byte(text)
	for name, f := range map[string]func(){
		"Text":  func() { r.Text(text) },
		"Bytes": func() { r.Bytes(b) },
		"JSON":  func() { r.JSON(raw) },
	} {
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if got, _ := r.Bytes(b); &got[0] != &b[0] {
		t.Error("Bytes made a copy")
	}
}

func TestBytesLeavesItsArgument(t *testing.T) {
	r := redact.New(redact.Options{Values: []string{planted(1)}})
	b := []byte("x " + planted(1))
	if got, _ := r.Bytes(b); string(got) != "x [redacted:value]" || string(b) != "x "+planted(1) {
		t.Errorf("got %q, argument %q", got, b)
	}
	if got, _ := r.Bytes(nil); got != nil {
		t.Errorf("nil became %q", got)
	}
}
