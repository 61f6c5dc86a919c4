# SPDX-License-Identifier: GPL-2.0-only
# compile.sh STEP OBJECT COMMAND...: run it, then record the command line and what it read.
step=$1
object=$2
shift 2
record=${object%/*}/.${object##*/}.cmd
[ -d "${object%/*}" ] || mkdir -p "${object%/*}"
echo "  $step      $object"
"$@" -MMD -MF "$record.d" || exit 1
saved="$*" exec awk -v object="$object" -f "${0%/*}/record.awk" "$record.d" > "$record"
