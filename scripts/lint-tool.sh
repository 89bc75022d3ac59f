#!/bin/sh
# Builds golangci-lint, in the version that tools/go.mod pins, into bin/, unless
# the one that is there was built from the same tools/go.mod and the same Go.
#
# It is compiled from source because a linter that was compiled with an older
# Go than the code refuses to check it, and because the module checksums in
# tools/go.sum then cover it.
set -eu
cd "$(dirname "$0")/.."

package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint
stamp=bin/golangci-lint.stamp
log=bin/golangci-lint.log
want=$({ go version; cat tools/go.mod tools/go.sum; } | cksum)

if [ -x bin/golangci-lint ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
	exit 0
fi
mkdir -p bin
echo "building golangci-lint (once; takes minutes on a fresh machine)"
# Compiled as go test compiles, without -trimpath, so that both share the standard library.
# Hundreds of lines about downloads are of interest only if the build fails.
if ! GOGC=400 go build -C tools -ldflags "-s -w" -o ../bin/golangci-lint "$package" >"$log" 2>&1; then
	cat "$log" >&2
	exit 1
fi
rm -f "$log"
printf '%s\n' "$want" >"$stamp"
