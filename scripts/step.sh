#!/bin/sh
# step.sh "Heading" command [argument...]
#
# Runs one step of a longer run: prints a heading, runs the command, prints how
# long it took. A failing step says so in one line that names the command, and
# step.sh exits with the command's status. If AGENTD_STEPS names a file, a line
# about the step is added to it, for phases.sh.
set -u

if [ "$#" -lt 2 ]; then
	echo "usage: step.sh HEADING COMMAND [ARGUMENT...]" >&2
	exit 2
fi
heading=$1
shift
steps=${AGENTD_STEPS:-}
unset AGENTD_STEPS # steps within this one have no line of their own

printf '\n==> %s\n' "$heading"
began=$(date +%s)
"$@"
status=$?
took=$(($(date +%s) - began))
# record OUTCOME adds the line.
record() {
	if [ -n "$steps" ]; then
		printf '%d\t%s\t%s\n' "$took" "$1" "$heading" >>"$steps"
	fi
}
if [ "$status" -ne 0 ]; then
	record FAILED
	printf '==> FAILED: %s (exit %d after %d s): %s\n' "$heading" "$status" "$took" "$*" >&2
	exit "$status"
fi
record ok
printf '==> ok: %s (%d s)\n' "$heading" "$took"
