#!/bin/sh
# Runs, without the race detector, the tests that the race pass leaves out:
#
#   - tests named TestLong...: many rounds of what a quicker test covers once
#     (kill -9, damaged files). They skip unless AGENTD_TEST_LONG is set;
#   - tests in files with the build constraint !race: they measure allocations,
#     which the race detector changes.
#
# Everything else has run in the race pass and isn't run again. Arguments are
# passed on to go test, or to what GOTEST says instead, seen from the root.
set -eu
cd "$(dirname "$0")/.."

# names FILE... prints the tests of the given files that belong here.
names() {
	for file in "$@"; do
		if grep -q '^//go:build .*!race' "$file"; then
			sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' "$file"
		else
			sed -n 's/^func \(TestLong[A-Za-z0-9_]*\)(.*/\1/p' "$file"
		fi
	done | grep -v '^TestMain$' | sort -u
}

ran=0
failed=
for dir in $(find . -name '*_test.go' -not -path './tools/*' -not -path './bench/*' -not -path './.*' -exec dirname {} + | sort -u); do
	tests=$(names "$dir"/*_test.go | paste -sd '|' -)
	[ -n "$tests" ] || continue
	ran=$((ran + 1))
	# shellcheck disable=SC2086 # GOTEST is words
	AGENTD_TEST_LONG=1 ${GOTEST:-go test} "$@" -run "^($tests)\$" "$dir" || failed="$failed $dir"
done

if [ -n "$failed" ]; then
	echo "test-plain.sh: failed:$failed" >&2
	exit 1
fi
echo "packages with tests of this kind: $ran"
