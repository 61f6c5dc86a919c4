// SPDX-License-Identifier: MIT
#include <signal.h>

#include "bench.h"

static void body(uint64_t iterations) {
    (void)iterations;
    raise(SIGSEGV);
}

BENCH(fault_segv) = {
    .help = "for tests: a case that dies of a bad memory access",
    .body = body,
};
