//go:build !linux

package main

import "errors"

// freeBytes is not known here.
func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }

// machineFindings says that there is no sandbox here.
func machineFindings() []finding {
	return []finding{warn("sandbox", "use Linux to run tools in a sandbox", "this system offers none of the mechanisms that agentd uses")}
}
