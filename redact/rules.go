package redact

// ruleAssigned names a value beside a telling name, ruleKey one under a telling
// key of a JSON object.
const (
	ruleAssigned = "assigned_secret"
	ruleKey      = "secret_key"
	ruleOwn      = "agentd_token"
)

// Where the prefix of a shape counts. A secret may be glued to what stands before it,
// but words end in some prefixes (task-, disk_test_, shelf_, laughs_): these count behind a
// digit, and not behind a letter.
const (
	apart  = false
	inWord = true
)

// shapes are the tokens that tell themselves by their begin. The prefixes and
// lengths are those that the vendors document or use; the first resumes a channel of
// agentd's.
var shapes = []shape{
	{ruleOwn, "rt_", base64URL, 43, 43, drawnChars, apart},

	{"aws_key", "AKIA", upperNum, 16, 16, anyChars, inWord},
	{"aws_key", "ASIA", upperNum, 16, 16, anyChars, inWord},
	{"aws_key", "ABIA", upperNum, 16, 16, anyChars, inWord},
	{"aws_key", "ACCA", upperNum, 16, 16, anyChars, inWord},

	{"github_token", "ghp_", alnum, 36, 255, anyChars, inWord},
	{"github_token", "gho_", alnum, 36, 255, anyChars, inWord},
	{"github_token", "ghu_", alnum, 36, 255, anyChars, inWord},
	{"github_token", "ghs_", alnum, 36, 255, anyChars, inWord},
	{"github_token", "ghr_", alnum, 36, 255, anyChars, inWord},
	{"github_token", "github_pat_", words, 22, 255, anyChars, inWord},

	{"gitlab_token", "glpat-", dotted, 20, 0, anyChars, inWord},
	{"gitlab_token", "gldt-", dotted, 20, 0, anyChars, inWord},
	{"gitlab_token", "glrt-", dotted, 20, 0, anyChars, inWord},
	{"gitlab_token", "glcbt-", dotted, 20, 0, anyChars, inWord},
	{"gitlab_token", "glptt-", dotted, 20, 0, anyChars, inWord},

	{"slack_token", "xoxb-", base64URL, 10, 0, drawnChars, inWord},
	{"slack_token", "xoxp-", base64URL, 10, 0, drawnChars, inWord},
	{"slack_token", "xoxa-", base64URL, 10, 0, drawnChars, inWord},
	{"slack_token", "xoxr-", base64URL, 10, 0, drawnChars, inWord},
	{"slack_token", "xoxs-", base64URL, 10, 0, drawnChars, inWord},
	{"slack_token", "xoxe-", base64URL, 10, 0, drawnChars, inWord},
	{"slack_token", "xapp-", base64URL, 10, 0, drawnChars, inWord},
	{"slack_webhook", "hooks.slack.com/services/", classOf("A-Za-z0-9/"), 20, 0, anyChars, inWord},

	{"anthropic_key", "sk-ant-api", base64URL, 40, 0, drawnChars, inWord},
	{"anthropic_key", "sk-ant-oat", base64URL, 40, 0, drawnChars, inWord},
	{"anthropic_key", "sk-ant-admin", base64URL, 40, 0, drawnChars, inWord},
	{"anthropic_key", "sk-ant-", base64URL, 20, 0, drawnChars, apart},
	{"openai_key", "sk-", base64URL, 20, 0, drawnChars, apart},
	{"openai_key", "sk-", alnum, 20, 0, mixedChars, apart},
	{"google_key", "AIza", base64URL, 35, 35, anyChars, inWord},
	{"google_token", "ya29.", dotted, 20, 0, drawnChars, apart},
	{"google_secret", "GOCSPX-", base64URL, 28, 28, anyChars, inWord},
	{"xai_key", "xai-", alnum, 20, 0, drawnChars, apart},
	{"groq_key", "gsk_", alnum, 20, 0, drawnChars, inWord},
	{"huggingface_token", "hf_", alnum, 30, 64, anyChars, inWord},

	{"stripe_key", "sk_live_", alnum, 24, 0, anyChars, inWord},
	{"stripe_key", "rk_live_", alnum, 24, 0, anyChars, inWord},
	{"stripe_key", "sk_live_", alnum, 16, 0, anyChars, apart},
	{"stripe_key", "sk_test_", alnum, 16, 0, anyChars, apart},
	{"stripe_key", "rk_live_", alnum, 16, 0, anyChars, apart},
	{"stripe_key", "rk_test_", alnum, 16, 0, anyChars, apart},
	{"stripe_key", "whsec_", base64Std, 24, 0, anyChars, inWord},

	{"npm_token", "npm_", alnum, 36, 36, anyChars, inWord},
	{"pypi_token", "pypi-", base64URL, 50, 0, drawnChars, inWord},
	{"sendgrid_key", "SG.", dotted, 60, 72, drawnChars, apart},
	{"digitalocean_token", "dop_v1_", lowerHex, 64, 64, anyChars, inWord},
	{"shopify_token", "shpat_", alnum, 32, 32, anyChars, inWord},
	{"grafana_token", "glsa_", words, 32, 64, anyChars, inWord},
	{"vault_token", "hvs.", base64URL, 24, 0, drawnChars, apart},
	{"tailscale_key", "tskey-", base64URL, 20, 0, drawnChars, inWord},
	{"linear_key", "lin_api_", alnum, 32, 0, anyChars, apart},
	{"age_key", "AGE-SECRET-KEY-1", upperNum, 58, 58, anyChars, inWord},
}

// names that tell a secret when something is assigned to them; weak ones tell
// other things as well.
var names = []struct {
	keyword string
	weak    bool
}{
	{"password", false},
	{"passwd", false},
	{"passphrase", false},
	{"pwd", false},
	{"secret", false},
	{"api_key", false},
	{"apikey", false},
	{"api-key", false},
	{"access_key", false},
	{"accesskey", false},
	{"access-key", false},
	{"private_key", false},
	{"privatekey", false},
	{"credential", false},
	{"token", true},
	{"_auth", true},
}

// builtin returns the entries of all built-in rules.
func builtin() []entry {
	var out []entry
	for _, h := range shapes {
		out = append(out, entry{rule: h.rule, keyword: h.prefix, match: h.matcher()})
	}
	out = append(out,
		entry{rule: ruleOwn, keyword: ownPrefix, match: matchOwn},
		entry{rule: "jwt", keyword: "eyJ", match: matchJWT},
		entry{rule: "private_key", keyword: "-----BEGIN ", match: matchBlock},
		entry{rule: "url_password", keyword: "://", match: matchURL},
		entry{rule: "authorization", keyword: "authorization", fold: true, match: matchAuthorization},
		entry{rule: "authorization", keyword: "bearer ", fold: true, match: matchBearer},
		entry{rule: "authorization", keyword: "basic ", fold: true, match: matchBasic},
	)
	for _, n := range names {
		out = append(out, entry{rule: ruleAssigned, keyword: n.keyword, fold: true, match: assigned(n.keyword, n.weak)})
	}
	return out
}
