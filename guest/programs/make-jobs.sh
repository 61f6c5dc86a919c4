#!/bin/bash
# SPDX-License-Identifier: MIT
# make-jobs.sh DIR JOBS COUNT TURNS: make -jJOBS of COUNT jobs that depend on nothing, each a shell
# that counts to TURNS. Nobody waits for anything but a CPU.
set -eu
dir=$1/make-jobs jobs=$2 count=$3 turns=$4
rm -rf "$dir"
mkdir -p "$dir"
{
    echo ".PHONY: all"
    for ((i = 1; i <= count; i++)); do echo "all: job$i"; done
    printf 'job%%:\n\t@i=0; while [ $$i -lt %d ]; do i=$$((i + 1)); done\n' "$turns"
} >"$dir/Makefile"
TIMEFORMAT='real_s: %3R
user_s: %3U
sys_s: %3S
cpu_percent: %P'
echo "kdyno: timed from here"
{ time make -s -C "$dir" -j"$jobs" 2>&1; } 2>&1
echo "kdyno: timed to here"
rm -rf "$dir"
