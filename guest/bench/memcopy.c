// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static char *from, *to;
static size_t block_bytes;

static void setup(int argc, char **argv) {
    if (argc != 1)
        bench_fail("memcopy wants a block size in KiB");
    block_bytes = (size_t)bench_number(argv[0], "the block size", 1, 1 << 20) * 1024;
    from = malloc(block_bytes);
    to = malloc(block_bytes);
    if (!from || !to)
        bench_fail("no memory for two blocks of %s KiB", argv[0]);
    for (size_t i = 0; i < block_bytes; i++)
        from[i] = (char)(i ^ (i >> 10));
    memset(to, 0, block_bytes);
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        memcpy(to, from, block_bytes);
        __asm__ volatile("" ::"r"(from), "r"(to) : "memory");
    }
}

static void cleanup(void) {
    if (memcmp(from, to, block_bytes))
        bench_fail("the copy differs");
}

BENCH(memcopy) = {
    .help = "memcpy a large block, by the C library",
    .usage = "BLOCK_KIB",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
