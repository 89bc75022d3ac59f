package main

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/command"
	"agentd/redact"
)

// host is what the runtime asks the program about.
func (s *serving) host() agentd.Host {
	s.rememberSettings()
	shapes := s.wired.options.Loop.Redact
	return agentd.Host{
		Tokens: s.tokens,
		Configuration: func() ([]command.ConfigurationValue, error) {
			return shownConfiguration(*s.settingsInUse.Load(), shapes)
		},
	}
}

// rememberSettings keeps the settings as they are now for those who ask.
func (s *serving) rememberSettings() {
	values := slices.Clone(s.loaded.Values)
	s.settingsInUse.Store(&values)
}

// shownConfiguration returns settings as an admin may see them.
func shownConfiguration(values []config.Value, shapes *redact.Redactor) ([]command.ConfigurationValue, error) {
	out := make([]command.ConfigurationValue, 0, len(values))
	for i := range values {
		v := &values[i]
		raw, err := json.Marshal(v.Value)
		if err != nil {
			return nil, err
		}
		var plain any
		if err := json.Unmarshal(raw, &plain); err != nil {
			return nil, err
		}
		if raw, err = json.Marshal(withoutSecrets(v.Name, plain)); err != nil {
			return nil, err
		}
		clean, _ := shapes.JSON(raw)
		out = append(out, command.ConfigurationValue{
			Name: strings.TrimSuffix(v.Name, "[]"), Value: clean, Origin: string(v.Layer), Where: v.Where, Reloadable: v.Reload,
		})
	}
	return out, nil
}

// hiddenValue stands for a value that isn't shown.
const hiddenValue = "xxxxx"

// withoutSecrets hides what is, or may be, a secret: passwords and query values of
// addresses, and what stands under a name that secrets have.
func withoutSecrets(name string, v any) any {
	if mayHoldSecrets(name) && v != nil {
		return hideAll(v)
	}
	switch v := v.(type) {
	case string:
		return withoutCredentials(v)
	case []any:
		for i := range v {
			v[i] = withoutSecrets("", v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = withoutSecrets(key, v[key])
		}
	}
	return v
}

// mayHoldSecrets reports whether what has that name may be a secret. A setting that only
// names a variable or a file is none.
func mayHoldSecrets(name string) bool {
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		name = name[at+1:]
	}
	name = strings.ToLower(strings.TrimSuffix(name, "[]"))
	if strings.HasSuffix(name, "env") && name != "env" || strings.HasSuffix(name, "file") || strings.HasSuffix(name, "ref") {
		return false
	}
	for _, word := range []string{"token", "secret", "password", "apikey", "authorization"} {
		if strings.Contains(name, word) && !strings.Contains(name, "tokens") {
			return true
		}
	}
	return false
}

// hideAll hides texts and keeps the form that they stand in.
func hideAll(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return v
		}
		return hiddenValue
	case []any:
		for i := range v {
			v[i] = hideAll(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = hideAll(v[key])
		}
	}
	return v
}

// withoutCredentials hides the password and the query values of an address.
func withoutCredentials(s string) string {
	scheme, _, ok := strings.Cut(s, "://")
	if !ok {
		return s
	}
	u, err := url.Parse(s)
	if err != nil {
		return scheme + "://…"
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), hiddenValue)
		}
	}
	if u.RawQuery != "" {
		q := u.Query()
		for name := range q {
			q.Set(name, hiddenValue)
		}
		u.RawQuery = q.Encode()
	}
	if u.Fragment != "" {
		u.Fragment = hiddenValue
	}
	return u.String()
}
