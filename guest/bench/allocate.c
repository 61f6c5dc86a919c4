// SPDX-License-Identifier: MIT
// malloc and free with 1024 blocks alive, of 16 bytes to 256 KiB, every doubling as often as the
// next. One byte of each page of a new block is written, as a program would.
#include <malloc.h>
#include <stdlib.h>

#include "bench.h"

enum { ALIVE = 1024, PAGE = 4096, SMALLEST_BITS = 4, LARGEST_BITS = 18 };

static char *blocks[ALIVE];
static uint32_t state = 1;

static uint32_t random_word(void) {
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    // A fixed one: else the first large block to be freed makes the library keep all later ones,
    // and how often the kernel is asked for memory would change while the clock runs.
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        char **slot = &blocks[random_word() % ALIVE];
        uint32_t bits = SMALLEST_BITS + random_word() % (LARGEST_BITS - SMALLEST_BITS);
        size_t size = ((size_t)1 << bits) + (random_word() & ((1u << bits) - 1));
        free(*slot);
        *slot = malloc(size);
        if (!*slot)
            bench_fail("no memory for a block of %zu bytes", size);
        for (size_t at = 0; at < size; at += PAGE)
            (*slot)[at] = (char)i;
    }
}

BENCH(allocate) = {
    .help = "malloc and free a block of 16 bytes to 256 KiB, 1024 of them alive",
    .setup = setup,
    .body = body,
};
