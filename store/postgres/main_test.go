package postgres_test

import (
	"testing"

	"agentd/internal/leaktest"
)

// TestMain fails if a closed store left a goroutine behind.
func TestMain(m *testing.M) { leaktest.Main(m) }
