#!/bin/sh
# Prints the version of Node.js, for the contract tests. Installs nodejs and npm
# from Debian's packages if they are missing.
set -eu

# oldest is what contract/package.json asks for.
oldest=18.20.1

# version prints that of node, or fails if node or npm is missing.
version() {
	command -v npm >/dev/null && node --version 2>/dev/null
}

if ! version >/dev/null; then
	if ! command -v apt-get >/dev/null; then
		echo "Node.js is missing and there is no apt-get. Install Node.js $oldest or newer, with npm, and put both into PATH." >&2
		exit 1
	fi
	if [ "$(id -u)" -ne 0 ]; then
		echo "Node.js is missing, and installing it needs root. Run: sudo $0" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update >&2
	# A nodejs from elsewhere may bring npm and refuse Debian's package of it.
	if ! command -v node >/dev/null; then
		apt-get install -y --no-install-recommends nodejs >&2
	fi
	if ! command -v npm >/dev/null; then
		apt-get install -y --no-install-recommends npm >&2
	fi
fi

if ! found=$(version); then
	echo "The packages nodejs and npm were installed, but node and npm are not in PATH." >&2
	exit 1
fi
if [ "$(printf '%s\n%s\n' "$oldest" "${found#v}" | sort -V | head -n 1)" != "$oldest" ]; then
	echo "Node.js $found is too old: the contract tests need $oldest or newer." >&2
	exit 1
fi
echo "Node.js $found"
