#!/bin/sh
# Runs the tests several times beside a load, and stops at the first failure: what
# passes here doesn't depend on how fast the machine is.
#
#   stress.sh LOAD ROUNDS COMMAND...
#
# LOAD is how many processes keep the processors busy meanwhile.
set -eu
load=$1
rounds=$2
shift 2

busy=
# By force: a shell that was just forked may lose any other signal. The exit code is the
# tests', not that of the load.
trap 'kill -9 $busy 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
i=0
while [ "$i" -lt "$load" ]; do
	(while :; do :; done) &
	busy="$busy $!"
	i=$((i + 1))
done

round=1
while [ "$round" -le "$rounds" ]; do
	echo "==> stress: round $round of $rounds, beside a load of $load"
	"$@" || {
		code=$?
		echo "==> stress: round $round of $rounds failed (exit $code): $*" >&2
		exit "$code"
	}
	round=$((round + 1))
done
echo "==> stress: $rounds rounds passed beside a load of $load"
