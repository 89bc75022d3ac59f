package transfer_test

import (
	"os"
	"testing"

	"agentd/internal/runtimetest"
)

func TestMain(m *testing.M) { os.Exit(runtimetest.RunTests(m)) }
