package redact_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"agentd/redact"
)

// A secret that is glued to what stands before it is found all the same.
func TestGluedSecrets(t *testing.T) {
	r := redact.New(redact.Options{})
	for rule, list := range secrets() {
		for _, secret := range list {
			for _, before := range []string{"0", "sha256", "\x1b[0;32", "u0041", "build-2026-11-16_32", strings.Repeat("a1", 100)} {
				got, found := r.Text(before + secret)
				if strings.Contains(got, secret[len(secret)/2:]) || !found.Any() {
					t.Errorf("%s behind %q: %q", rule, before, got)
				}
			}
		}
	}
	for _, rule := range []string{"github_token", "gitlab_token", "slack_token", "aws_key", "google_key", "groq_key", "shopify_token", "jwt"} {
		for _, secret := range secrets()[rule] {
			if got, _ := r.Text("prefix" + secret); got != "prefix[redacted:"+rule+"]" && !strings.HasPrefix(secret, "ghs_") {
				t.Errorf("%s behind letters: %q", rule, got)
			}
		}
	}
}

// wordText draws what people and programs write: words in all the ways to join them,
// numbers, versions, dates, digests and ids.
func wordText(t *rapid.T) string {
	words := strings.Fields(`task disk desk risk mask work network fork shelf half self golf start port part sort report
		berlin merlin goblin pnpm laughs graphs roughs high key monkey keyJSON hotkeyJump turkey MSG LMSG maxai
		agentd session runtime event test live api ant user value index the quick brown Fox HTTPServer ParseURL`)
	part := rapid.OneOf(
		rapid.SampledFrom(words),
		rapid.StringMatching(`([bdfglmnprt][aeiou]){1,5}`), rapid.StringMatching(`[BDFGL][aeiou]([bdfglmnprt][aeiou]){0,4}`), rapid.StringMatching(`([BDFGL][AEIOU]){1,4}`),
		rapid.StringMatching(`[0-9]{1,6}`), rapid.StringMatching(`v[0-9]\.[0-9]{1,2}`), rapid.StringMatching(`[0-9a-f]{40}`), rapid.StringMatching(`[0-9a-f]{64}`),
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), rapid.StringMatching(` sess_[0-9a-z]{26} `),
	)
	joint := rapid.SampledFrom([]string{" ", "_", "-", ".", "/", "", ", ", "\n", "(", ")"})
	var b strings.Builder
	for range rapid.IntRange(1, 30).Draw(t, "parts") {
		b.WriteString(part.Draw(t, "part"))
		b.WriteString(joint.Draw(t, "joint"))
	}
	return b.String()
}

// Ordinary text stays as it is, whatever its words end and begin with.
func TestWordsAreNoSecrets(t *testing.T) {
	r := redact.New(redact.Options{})
	rapid.Check(t, func(t *rapid.T) {
		text := wordText(t)
		if got, found := r.Text(text); got != text {
			t.Fatalf("%v in %q: %q", found.Rules, text, got)
		}
	})
	for _, text := range []string{
		"task-4711-fix-the-2nd-thing-of-12", "disk_test_integration12345678", "work_live_connection1234567", "shelf_0123456789abcdef0123456789abcdef",
		"keyJsonWebTokenFactory.someMethodName42.anotherMethod43", "berlin_api_0123456789abcdef0123456789abcdef01",
		"agentd_http_request_duration_seconds_bucket_by_route_and_status",
	} {
		if got, _ := r.Text(text); got != text {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Encoded data stays as it is: it contains every prefix sooner or later.
func TestEncodedDataStays(t *testing.T) {
	r := redact.New(redact.Options{})
	plain := strings.Repeat("x", 400)
	for rule, list := range secrets() {
		if text := plain + list[0]; strings.Contains(list[0], "/") || strings.Contains(list[0], ".") {
			continue
		} else if got, _ := r.Text(text); got != text {
			t.Errorf("%s in encoded data: %q", rule, got[390:])
		}
	}
	data := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprint(letters(mixed, 1<<16, 5))))
	if got, found := r.Text(data); got != data {
		t.Errorf("%v", found)
	}
}
