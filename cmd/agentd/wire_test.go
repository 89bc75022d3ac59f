package main

import (
	"testing"

	"agentd/cmd/agentd/internal/config"
)

// TestEveryKindOfProviderIsMade: a kind that the configuration accepts has its case in
// newProvider.
func TestEveryKindOfProviderIsMade(t *testing.T) {
	for _, s := range config.Table() {
		if s.Name != "providers[].kind" {
			continue
		}
		for _, kind := range s.Values {
			if p, err := newProvider(config.Provider{ID: "p", Kind: kind}, "key"); err != nil || p == nil {
				t.Errorf("%s: %v, %v", kind, p, err)
			}
		}
		return
	}
	t.Fatal("the table has no providers[].kind")
}
