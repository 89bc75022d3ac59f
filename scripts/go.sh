#!/bin/sh
# Fails, and says what to do, unless "go" (or $GO) is there and is as new as
# go.mod asks for. A Go from before 1.21 reads newer go.mod files wrongly and
# would complain about anything but its age.
set -eu
cd "$(dirname "$0")/.."

go=${GO:-go}
want=$(sed -n 's/^go \([0-9.]*\)$/\1/p' go.mod)
if ! command -v "$go" >/dev/null 2>&1; then
	echo "Go: $go is not in PATH. Install Go $want or newer (https://go.dev/dl) and add its bin folder to PATH;" >&2
	echo "Go: under sudo, which has a PATH of its own: sudo env PATH=\"\$PATH\" make ..." >&2
	exit 1
fi
# Since 1.21, Go fetches by itself what go.mod asks for, or says here why not.
found=$("$go" env GOVERSION)
found=${found#go}
if [ "$(printf '%s\n%s\n' "$want" "${found%%[!0-9.]*}" | sort -V | head -n 1)" != "$want" ]; then
	echo "Go: this is $found, and go.mod asks for $want or newer. Install it from https://go.dev/dl." >&2
	exit 1
fi
