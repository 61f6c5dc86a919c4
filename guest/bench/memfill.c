// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static char *block;
static size_t block_bytes;

static void setup(int argc, char **argv) {
    if (argc != 1)
        bench_fail("memfill wants a block size in KiB");
    block_bytes = (size_t)bench_number(argv[0], "the block size", 1, 1 << 20) * 1024;
    block = malloc(block_bytes);
    if (!block)
        bench_fail("no memory for a block of %s KiB", argv[0]);
    memset(block, 1, block_bytes); // its pages are there from now on
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        memset(block, (int)(i & 127), block_bytes);
        __asm__ volatile("" ::"r"(block) : "memory"); // it is not known that nobody reads it
    }
}

static void cleanup(void) {
    for (size_t at = 1; at < block_bytes; at++)
        if (block[at] != block[0])
            bench_fail("byte %zu of the block was not filled", at);
}

BENCH(memfill) = {
    .help = "memset a large block, by the C library",
    .usage = "BLOCK_KIB",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
