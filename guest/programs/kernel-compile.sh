#!/bin/bash
# SPDX-License-Identifier: MIT
# kernel-compile.sh TREE DIR JOBS TARGET PREPARED: compiles TARGET (directories such as lib/, or
# "all") of the kernel source TREE, tiny configuration, with make -jJOBS. Configuring and preparing
# are not timed; with TARGET "prepare" they are all that is done, into the folder PREPARED, for
# later calls to copy. It measures the kernel that runs the compile, not the one compiled.
set -eu
tree=$1 dir=$2/kernel-compile jobs=$3 target=$4 prepared=$5
fail() {
    echo "$*" >&2
    exit 1
}

[ -e "$tree/Makefile" ] || fail "no kernel source in $tree: the experiment's [kernel] names it"
build() { # one word size and compiler whatever the kernel under test is
    make -s -C "$tree" O="$dir/o" ARCH=um KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=kdyno \
        KBUILD_BUILD_HOST=kdyno "$@" >"$dir/said" 2>&1 ||
        fail "make $* failed: $(tail -n 5 "$dir/said")"
}

if [ ! -d "$dir/prepared" ] && [ -e "$prepared/.config" ]; then
    mkdir -p "$dir"
    cp -a "$prepared" "$dir/prepared"
elif [ ! -d "$dir/prepared" ]; then
    rm -rf "$dir"
    mkdir -p "$dir/o"
    build tinyconfig
    build -j"$jobs" prepare
    cp -a "$dir/o" "$dir/prepared"
fi
if [ "$target" = prepare ]; then
    cp -a "$dir/prepared/." "$prepared/"
    exit
fi
rm -rf "$dir/o"
cp -a "$dir/prepared" "$dir/o"
TIMEFORMAT='real_s: %3R
user_s: %3U
sys_s: %3S
cpu_percent: %P'
if [ "$target" = all ]; then target=; fi
echo "kdyno: timed from here"
{ time build -j"$jobs" $target; } 2>&1
echo "kdyno: timed to here"
echo "objects: $(find "$dir/o" -name '*.o' -newer "$dir/prepared" | wc -l)"
