// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        int copy = dup(0);
        if (copy < 0)
            bench_fail("dup of the standard input: %s", strerror(errno));
        close(copy);
        syscall(SYS_getpid); // directly: a C library may remember the answer
        syscall(SYS_getuid);
        umask(022);
    }
}

BENCH(syscall) = {
    .help = "five system calls: dup, close, getpid, getuid, umask",
    .body = body,
};
