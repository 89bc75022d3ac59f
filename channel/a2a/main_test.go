package a2a_test

import (
	"testing"

	"agentd/internal/leaktest"
)

// Nothing that a test started is left when it ends.
func TestMain(m *testing.M) { leaktest.Main(m) }
