#!/bin/sh
# step.sh "Heading" command [argument...]
#
# Runs one step of a longer run: prints a heading, runs the command, prints how
# long it took. A failing step says so in one line that names the command, and
# step.sh exits with the command's status.
set -u

if [ "$#" -lt 2 ]; then
	echo "usage: step.sh HEADING COMMAND [ARGUMENT...]" >&2
	exit 2
fi
heading=$1
shift

printf '\n==> %s\n' "$heading"
began=$(date +%s)
"$@"
status=$?
took=$(($(date +%s) - began))
if [ "$status" -ne 0 ]; then
	printf '==> FAILED: %s (exit %d after %d s): %s\n' "$heading" "$status" "$took" "$*" >&2
	exit "$status"
fi
printf '==> ok: %s (%d s)\n' "$heading" "$took"
