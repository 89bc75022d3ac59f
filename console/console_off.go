//go:build noconsole

package console

import "net/http"

// Handler returns nil: this build has no console.
func Handler() http.Handler { return nil }
