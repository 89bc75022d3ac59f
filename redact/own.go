package redact

// ownPrefix begins agentd's own tokens.
const ownPrefix = "agentd_"

// ownSecret is how many characters the random part of a token has at least.
const ownSecret = 43

// matchOwn finds agentd's own tokens: the prefix, the token's id, or what the token is
// for, and the random part.
func matchOwn(s string, at int, final bool) (int, int, verdict) {
	if !isBoundary(s, at) && !glued(s, at, true) {
		return at, at, no
	}
	id := at + len(ownPrefix)
	end := runEnd(s, id, lowerAlnum, 27)
	if end == len(s) && !final {
		return at, end, undecided
	}
	if name := s[id:end]; end == len(s) || s[end] != '_' || len(name) != 26 && name != "admin" && name != "local" {
		return at, at, no
	}
	secret := end + 1
	return judgeRun(s, at, secret, runEnd(s, secret, base64URL, maxToken), final, base64URL, func(v string) bool {
		return len(v) >= ownSecret
	})
}
