// SPDX-License-Identifier: MIT
#include <math.h>

#include "bench.h"

static double x = 0.5;

static void body(uint64_t iterations) {
    double value = x;
    for (uint64_t i = 0; i < iterations; i++) {
        // Each feeds the next, and the last one leads back into (0.5, 1).
        double angle = sin(value) + cos(value);
        double slope = tan(0.5 * angle) + atan(angle);
        double power = exp(slope) + log(1 + slope * slope);
        value = 0.5 + 0.5 / (1 + sqrt(fabs(power)) + pow(0.5, slope));
    }
    x = value;
}

static void cleanup(void) {
    if (!(x > 0.4 && x < 1.1))
        bench_fail("the functions led to %g", x);
}

BENCH(fp_library) = {
    .help = "8 library functions on doubles: sin cos tan atan exp log sqrt pow",
    .body = body,
    .cleanup = cleanup,
};
