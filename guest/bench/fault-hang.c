// SPDX-License-Identifier: MIT
#include "bench.h"

static void body(uint64_t iterations) {
    for (volatile uint64_t i = iterations;; i++)
        ;
}

BENCH(fault_hang) = {
    .help = "for tests: a case that never ends",
    .body = body,
};
