package agentd_test

import "agentd/evidence/replaytest"

// replayed counts the decisions of this package's tests that were made again.
var replayed replaytest.Tally
