#!/bin/sh
# Builds VersityGW, the object storage of the tests, in the version that tools/s3/go.mod
# pins, into bin/, unless the one that is there was built from the same tools/s3/go.mod and
# the same Go. No package of Debian has an object storage.
set -eu
cd "$(dirname "$0")/.."

package=github.com/versity/versitygw/cmd/versitygw
stamp=bin/versitygw.stamp
log=bin/versitygw.log
want=$({ go version; cat tools/s3/go.mod tools/s3/go.sum; } | cksum)

if [ -x bin/versitygw ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
	exit 0
fi
mkdir -p bin
echo "building VersityGW (once; takes minutes on a fresh machine)"
# Hundreds of lines about downloads are of interest only if the build fails.
if ! CGO_ENABLED=0 go build -C tools/s3 -trimpath -ldflags "-s -w" -o ../../bin/versitygw "$package" >"$log" 2>&1; then
	cat "$log" >&2
	echo "s3.sh: VersityGW could not be built; without it the tests of object storage are skipped." >&2
	exit 1
fi
rm -f "$log"
printf '%s\n' "$want" >"$stamp"
