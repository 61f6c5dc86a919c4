#!/bin/sh
# SPDX-License-Identifier: MIT
# tiobench.sh PHASE DIR THREADS MB OPERATIONS: one phase of tiotest, done by fio: write,
# random_write, read or random_read in blocks of 4096 bytes, one file of MB per thread. The files
# stay for the phases that follow; a phase that finds none lays them out first, unmeasured.
set -eu
phase=$1 dir=$2/tiobench threads=$3 mb=$4 operations=$5
fail() {
    echo "$*" >&2
    exit 1
}

[ -d "$2" ] || fail "no disk: $2 is not there"
command -v fio >/dev/null || fail "no fio on PATH: apt-get install fio"
each=$((operations / threads))
[ "$each" -gt 0 ] || fail "$operations operations are fewer than $threads threads"
mkdir -p "$dir"
trap 'rm -rf "$dir"' INT TERM HUP

have=$(find "$dir" -name 'file.*' -size "${mb}M" | wc -l)
if [ "$have" -ne "$threads" ]; then
    rm -f "$dir"/file.*
    # A disk that is filled to the brim is slow, and on a host not kdyno's to fill.
    df -Pk "$dir" | awk -v mb="$((threads * mb))" 'NR == 2 {
        need = mb * 1024; spare = $2 / 20
        if ($4 < need + spare) {
            printf "the disk is too small: %d MB free, %d MB of files and %d MB to spare wanted\n",
                $4 / 1024, mb, spare / 1024
            exit 1
        }
    }' >&2 || exit 1
fi

engine() { # also: created in the timed part, synced and closed there, never taken out of the cache
    fio --name=tio --directory="$dir" --filename_format='file.$jobnum' --numjobs="$threads" \
        --thread --size="${mb}M" --bs=4096 --ioengine=psync --fallocate=none --invalidate=0 \
        --group_reporting --norandommap --randrepeat=1 --output-format=json+ "$@"
}

if [ "$phase" = write ]; then
    rm -f "$dir"/file.*
elif [ "$have" -ne "$threads" ]; then
    engine --rw=write --end_fsync=1 >/dev/null
fi
case $phase in
write) said=$(engine --rw=write --create_on_open=1 --end_fsync=1) ;;
random_write) said=$(engine --rw=randwrite --number_ios="$each" --end_fsync=1) ;;
read) said=$(engine --rw=read) ;;
random_read) said=$(engine --rw=randread --number_ios="$each") ;;
*) fail "phase $phase is none of write, random_write, read, random_read" ;;
esac || fail "fio failed: $said"

case $phase in *write) side=write ;; *) side=read ;; esac
printf '%s\n' "$said" | awk -v side="$side" -v threads="$threads" '
    { gsub(/[",]/, "") }
    $NF == "{" { name[++depth] = $1; next } # fio writes one key a line
    $NF == "[" { next }
    $1 == "}" { depth--; next }
    $1 == "usr_cpu" { user = $3 }
    $1 == "sys_cpu" { system_ = $3 }
    $1 == "error" && $3 != 0 { wrong = $3 }
    name[3] != side { next }
    depth == 3 && $1 == "io_bytes" { bytes = $3 }
    depth == 3 && $1 == "runtime" { ms = $3 }
    depth == 3 && $1 == "total_ios" { ios = $3 }
    depth == 4 && name[4] == "lat_ns" && $1 == "max" { most = $3 }
    depth == 4 && name[4] == "lat_ns" && $1 == "mean" { mean = $3 }
    depth == 5 && name[4] == "clat_ns" && name[5] == "bins" {
        if ($1 > 2e9) over2 += $3
        if ($1 > 10e9) over10 += $3
    }
    END {
        if (wrong || !bytes || !ms || !ios) {
            print "fio gave no result" (wrong ? ", error " wrong : "")
            exit 1
        }
        printf "mb_per_s: %.4f\n", bytes / 1048576 / (ms / 1000)
        printf "cpu_percent: %.2f\n", (user + system_) * threads
        printf "mean_latency_ms: %.6f\nmax_latency_ms: %.6f\n", mean / 1e6, most / 1e6
        printf "over_2s_percent: %.5f\nover_10s_percent: %.5f\n", 100 * over2 / ios, 100 * over10 / ios
    }'
