package a2a_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing that a test started is left when it ends.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
