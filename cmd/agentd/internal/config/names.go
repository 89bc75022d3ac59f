package config

import (
	"slices"
	"strings"
	"sync"
)

// byName finds a row of the table.
var byName = sync.OnceValue(func() map[string]*Setting {
	rows := map[string]*Setting{}
	for _, s := range Table() {
		rows[s.Name] = &s
	}
	return rows
})

func findSetting(name string) *Setting { return byName()[name] }

// join appends a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// below returns the keys that the object of that name may have.
func below(name string) []string {
	var keys []string
	for _, s := range Table() {
		rest := s.Name
		if name != "" {
			var ok bool
			if rest, ok = strings.CutPrefix(rest, name+"."); !ok {
				continue
			}
		}
		key, _, _ := strings.Cut(rest, ".")
		key = strings.TrimSuffix(key, "[]")
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// nest turns values by name into nested objects; name is the object's own.
func nest(values map[string]any, name string) map[string]any {
	out := map[string]any{}
	for full, v := range values {
		rest := full
		if name != "" {
			rest = strings.TrimPrefix(full, name+".")
		}
		at := out
		keys := strings.Split(rest, ".")
		for _, key := range keys[:len(keys)-1] {
			child, ok := at[key].(map[string]any)
			if !ok {
				child = map[string]any{}
				at[key] = child
			}
			at = child
		}
		at[strings.TrimSuffix(keys[len(keys)-1], "[]")] = v
	}
	return out
}
