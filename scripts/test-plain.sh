#!/bin/sh
# Runs, without the race detector, tests that other passes leave out.
#
#   test-plain.sh short [go test flags]
#     Tests in files with the build constraint !race: they measure allocations, or
#     try so much in one goroutine that the race detector costs minutes.
#   test-plain.sh long [go test flags]
#     Tests named TestLong...: many rounds of what a quicker test covers once
#     (kill -9, damaged files). They skip unless AGENTD_TEST_LONG is set.
#
# GOTEST says what to run instead of go test, seen from the root; BUT names packages that
# are left out, because all their tests run without the race detector anyway.
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
short | long) kind=$1 ;;
*)
	echo "test-plain.sh: which tests: short or long?" >&2
	exit 2
	;;
esac
shift

# names FILE... prints the tests of the given files that belong here.
names() {
	for file in "$@"; do
		if [ "$kind" = long ]; then
			sed -n 's/^func \(TestLong[A-Za-z0-9_]*\)(.*/\1/p' "$file"
		elif grep -q '^//go:build .*!race' "$file"; then
			sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' "$file"
		fi
	done | grep -v '^TestMain$' | sort -u
}

others=
# shellcheck disable=SC2086 # BUT are words
[ -z "${BUT:-}" ] || others=$("${GO:-go}" list -f '{{.Dir}}' $BUT)

# All packages in one call, so that they are built and run beside each other. A name
# of one package may be that of a quick test in another, which then runs once more.
dirs=
tests=
count=0
for dir in $(find . -name '*_test.go' -not -path './tools/*' -not -path './bench/*' -not -path './.*' -exec dirname {} + | sort -u); do
	case "
$others
" in *"
$PWD/${dir#./}
"*) continue ;; esac
	mine=$(names "$dir"/*_test.go | paste -sd '|' -)
	[ -n "$mine" ] || continue
	dirs="$dirs $dir"
	count=$((count + 1))
	tests="${tests:+$tests|}$mine"
done

if [ "$count" -eq 0 ]; then
	echo "test-plain.sh: no package has tests of this kind" >&2
	exit 1
fi
echo "packages with tests of this kind: $count"
[ "$kind" = short ] || export AGENTD_TEST_LONG=1
# shellcheck disable=SC2086 # GOTEST and dirs are words
${GOTEST:-go test} "$@" -run "^($tests)\$" $dirs
