# SPDX-License-Identifier: MIT
# In the new root: the steps, each told on descriptor 3 as "step status seconds megabytes".
person=$1 checkout=$2
shift 2
. /variables
cd "$checkout"

step() {
    name=$1
    shift
    echo "fresh: as $person: $*" >&2
    begun=$(date +%s)
    "$@" 3>&-
    status=$?
    used=$(df --output=used -BM / | tail -n 1 | tr -d ' M')
    echo "$name $status $(($(date +%s) - begun)) $used" >&3
    [ "$status" -eq 0 ] || exit 1
}

bare() {
    apt-get update -q >/dev/null && apt-get install -y -q git make >/dev/null
}

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
step bare bare
unset DEBIAN_FRONTEND
for target in "$@"; do
    if [ "$person" = user ]; then
        step "$target" runuser -u dyno -- make "$target"
    else
        step "$target" make "$target"
    fi
done
