// SPDX-License-Identifier: MIT
// The template: copy this file, change body, and `kdyno-guest list` shows the new benchmark.
#include "bench.h"

static volatile uint64_t count; // volatile, or the compiler leaves out the loop

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++)
        count++;
}

BENCH(hello) = {
    .help = "add one to a number in memory; the template for new benchmarks",
    .body = body,
};
