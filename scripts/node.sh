#!/bin/sh
# Prints the version of Node.js, for the tests that run programs of others.
# Installs nodejs and npm from Debian's packages if they are missing.
set -eu
here=$(dirname "$0")

# oldest is what contract/package.json asks for.
oldest=18.20.1

# version prints that of node, or fails if node or npm is missing.
version() {
	command -v npm >/dev/null 2>&1 && node --version 2>/dev/null
}

if ! version >/dev/null; then
	# A nodejs from elsewhere may bring npm and refuse Debian's package of it.
	if ! command -v node >/dev/null 2>&1; then
		if ! command -v npm >/dev/null 2>&1; then
			sh "$here/install.sh" "Node.js $oldest or newer with npm" nodejs npm
		else
			sh "$here/install.sh" "Node.js $oldest or newer" nodejs
		fi
	elif ! command -v npm >/dev/null 2>&1; then
		sh "$here/install.sh" "npm" npm
	fi
fi

if ! found=$(version); then
	echo "Node.js: node and npm are installed, but don't run; try: node --version && npm --version" >&2
	exit 1
fi
if [ "$(printf '%s\n%s\n' "$oldest" "${found#v}" | sort -V | head -n 1)" != "$oldest" ]; then
	echo "Node.js: $found is too old, the tests need $oldest or newer. Install a newer one and put it first into PATH." >&2
	exit 1
fi
echo "Node.js: $found"
