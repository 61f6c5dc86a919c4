// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char *supported(void) {
    return bench_in_guest() ? NULL : "it would take all memory of this machine: only in a guest";
}

static void body(uint64_t iterations) {
    (void)iterations;
    for (;;) {
        char *more = malloc(1 << 20);
        if (!more)
            bench_fail("no more memory");
        memset(more, 1, 1 << 20);
    }
}

BENCH(fault_oom) = {
    .help = "for tests: a case that takes all memory",
    .supported = supported,
    .body = body,
};
