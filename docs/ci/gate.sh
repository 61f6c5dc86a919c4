#!/bin/sh
# SPDX-License-Identifier: MIT
# The last word of a CI job: is a kernel slower? Ends with kdyno's own status and says in a line
# what it means. Usage: gate.sh RUN [--fail-on RULE]...
set -u
run=$1
shift
[ $# -gt 0 ] || set -- --fail-on slower
if [ -n "${KDYNO_HISTORY:-}" ]; then
	mkdir -p "$(dirname "$KDYNO_HISTORY")"
	set -- "$@" --history "$KDYNO_HISTORY"
fi
kdyno report "$run" "$@" >/dev/null
status=$?
case $status in
0) echo "gate: no watched case is slower" ;;
10) echo "gate: SLOWER; the summary says where and by how much" ;;
11) echo "gate: undecided; measure longer or ask for less precision" ;;
*) echo "gate: NO ANSWER (status $status): a tool or the machine failed, the kernel may be as fast as ever" ;;
esac >&2
exit $status
