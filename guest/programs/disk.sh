#!/bin/sh
# SPDX-License-Identifier: MIT
# disk.sh WAY BLOCK DIR BYTES: fio's WAY (read, write, randread, randwrite) through a file of 64 MiB in
# DIR, in blocks of BLOCK and past the page cache, until BYTES have gone: one process, one request at a
# time. The file stays for the next; who finds none lays it out first, unmeasured.
set -eu
way=$1 block=$2 dir=$3 bytes=$4
cd "$dir"
# Only fio knows when it begins and ends, and starting it takes longer than a quick case. What fio runs
# at those moments it sends to a file here; descriptor 3 is this script's own output.
exec 3>&1
fio --name=xbench --filename=xbench --rw="$way" --bs="$block" --size=64m --io_size="$bytes" \
    --overwrite=1 --direct=1 --ioengine=psync --output-format=json \
    --exec_prerun="{ echo 'kdyno: timed from here' >&3; }" \
    --exec_postrun="{ echo 'kdyno: timed to here' >&3; }"
rm -f xbench.prerun.txt xbench.postrun.txt
