// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static int ends[2];

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    if (pipe(ends))
        bench_fail("pipe: %s", strerror(errno));
}

static void body(uint64_t iterations) {
    char block[512] = {0};
    for (uint64_t i = 0; i < iterations; i++) {
        if (write(ends[1], block, sizeof block) != sizeof block)
            bench_fail("write to a pipe: %s", strerror(errno));
        if (read(ends[0], block, sizeof block) != sizeof block)
            bench_fail("read from a pipe: %s", strerror(errno));
    }
}

BENCH(pipe) = {
    .help = "write 512 bytes into a pipe and read them back, in one process",
    .setup = setup,
    .body = body,
};
