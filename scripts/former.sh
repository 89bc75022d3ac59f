#!/bin/sh
# Builds the program of an earlier commit as bin/former/agentd, for the test that runs it
# beside the present one: former.sh REF. The checkout stays as it is.
set -eu
cd "$(dirname "$0")/.."

ref=${1-}
if [ -z "$ref" ] || ! commit=$(git rev-parse --verify --quiet "$ref^{commit}"); then
	echo "former.sh: which version was before? Name a commit or a tag, for example: make test-neighbours FORMER=HEAD~1" >&2
	exit 2
fi
mkdir -p bin/former
out=$PWD/bin/former/agentd
tree=$(mktemp -d)
trap 'git worktree remove --force "$tree/agentd"; rmdir "$tree"' EXIT
trap 'exit 1' HUP INT TERM
git worktree add --quiet --detach "$tree/agentd" "$commit"
"${GO:-go}" -C "$tree/agentd" build -trimpath -o "$out" ./cmd/agentd
echo "former version: $(git log -1 --format='%h %cs %s' "$commit")"
