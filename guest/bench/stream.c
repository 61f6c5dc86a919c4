// SPDX-License-Identifier: MIT
// The four loops of STREAM over arrays far beyond the caches: 3 times 2 Mi doubles. Its definition
// is McCalpin's, Memory bandwidth and machine balance in current high performance computers (1995).
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { ELEMENTS = 2 << 20 };

static double *a, *b, *c;

static __attribute__((noinline)) void copy(void) {
    for (size_t i = 0; i < ELEMENTS; i++)
        c[i] = a[i];
}

static __attribute__((noinline)) void scale(void) {
    for (size_t i = 0; i < ELEMENTS; i++)
        b[i] = 3.0 * c[i];
}

static __attribute__((noinline)) void add(void) {
    for (size_t i = 0; i < ELEMENTS; i++)
        c[i] = a[i] + b[i];
}

static __attribute__((noinline)) void triad(void) {
    for (size_t i = 0; i < ELEMENTS; i++)
        a[i] = b[i] + 3.0 * c[i];
}

static const struct loop {
    const char *name;
    void (*run)(void);
    double a, b, c; // every element, after the loop has run over a = 1, b = 2, c = 0.5
} loops[] = {
    {"copy", copy, 1, 2, 1},
    {"scale", scale, 1, 1.5, 0.5},
    {"add", add, 1, 2, 3},
    {"triad", triad, 3.5, 2, 0.5},
};
static const struct loop *chosen;

static void setup(int argc, char **argv) {
    for (size_t i = 0; argc == 1 && i < sizeof loops / sizeof *loops; i++)
        if (!strcmp(argv[0], loops[i].name))
            chosen = &loops[i];
    if (!chosen)
        bench_fail("stream wants copy, scale, add or triad");
    a = malloc(ELEMENTS * sizeof *a);
    b = malloc(ELEMENTS * sizeof *b);
    c = malloc(ELEMENTS * sizeof *c);
    if (!a || !b || !c)
        bench_fail("no memory for three arrays of 16 MiB");
    for (size_t i = 0; i < ELEMENTS; i++) {
        a[i] = 1;
        b[i] = 2;
        c[i] = 0.5;
    }
}

// None of the loops reads what it writes, so running it again gives the same.
static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        chosen->run();
        __asm__ volatile("" ::: "memory");
    }
}

static void cleanup(void) {
    for (size_t i = 0; i < ELEMENTS; i++)
        if (a[i] != chosen->a || b[i] != chosen->b || c[i] != chosen->c)
            bench_fail("element %zu is %g, %g, %g", i, a[i], b[i], c[i]);
}

BENCH(stream) = {
    .help = "one of STREAM's loops over three arrays of 16 MiB",
    .usage = "copy|scale|add|triad",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
