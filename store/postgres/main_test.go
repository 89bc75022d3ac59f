package postgres_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a closed store left a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
