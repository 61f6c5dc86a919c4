// SPDX-License-Identifier: MIT
// Euclid's algorithm with divisions, in registers, on pairs of 32-bit numbers that no branch
// predictor and no compiler knows.
#include "bench.h"

static uint64_t state = 0x2545f4914f6cdd1d;
static volatile uint32_t result;

static void body(uint64_t iterations) {
    uint64_t random = state;
    uint32_t sum = 0;
    for (uint64_t i = 0; i < iterations; i++) {
        // xorshift64, Marsaglia, Xorshift RNGs (2003)
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        uint32_t a = (uint32_t)random, b = (uint32_t)(random >> 32);
        while (b) {
            uint32_t rest = a % b;
            a = b;
            b = rest;
        }
        sum += a;
    }
    state = random;
    result = sum;
}

BENCH(gcd) = {
    .help = "the greatest common divisor of two random 32-bit numbers",
    .body = body,
};
