// SPDX-License-Identifier: MIT
// Eight independent sequences, so that the units are kept busy rather than one operation waiting
// for the other; every one stays near 1, so that no number becomes slow or infinite.
#include <math.h>

#include "bench.h"

enum { SEQUENCES = 8 };

static double values[SEQUENCES];

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    for (int i = 0; i < SEQUENCES; i++)
        values[i] = 1 + i / 16.0;
}

static void body(uint64_t iterations) {
    double local[SEQUENCES];
    for (int i = 0; i < SEQUENCES; i++)
        local[i] = values[i];
    for (uint64_t turn = 0; turn < iterations; turn++)
        for (int i = 0; i < SEQUENCES; i++)
            local[i] = (local[i] * 1.25 + 1.5) / (local[i] - 0.125) - 0.75;
    for (int i = 0; i < SEQUENCES; i++)
        values[i] = local[i];
}

static void cleanup(void) {
    for (int i = 0; i < SEQUENCES; i++)
        if (!isfinite(values[i]))
            bench_fail("sequence %d came out as %g", i, values[i]);
}

BENCH(fp_basic) = {
    .help = "40 floating-point operations: 8 times * + - / -",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
