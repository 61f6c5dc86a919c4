// SPDX-License-Identifier: MIT
// For tests of the machinery: takes time and no CPU.
#include <time.h>

#include "bench.h"

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

BENCH(idle) = {
    .help = "sleep for a millisecond",
    .body = body,
};
