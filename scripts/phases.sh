#!/bin/sh
# phases.sh COMMAND [ARGUMENT...]
#
# Runs a command whose steps go through step.sh, prints at the end how long each
# of them took, also after a failure, and exits with the command's status.
set -u

if [ "$#" -lt 1 ]; then
	echo "usage: phases.sh COMMAND [ARGUMENT...]" >&2
	exit 2
fi
AGENTD_STEPS=$(mktemp) || exit 1
export AGENTD_STEPS
trap 'rm -f "$AGENTD_STEPS"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

began=$(date +%s)
"$@"
status=$?
took=$(($(date +%s) - began))

printf '\n==> Phases (seconds)\n'
while IFS='	' read -r seconds outcome heading; do
	printf '%7d  %-6s  %s\n' "$seconds" "$outcome" "$heading"
done <"$AGENTD_STEPS"
printf '%7d  %-6s  %s\n' "$took" "$([ "$status" -eq 0 ] && echo ok || echo FAILED)" "all"
exit "$status"
