// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static int console;
static char line[1000 * 1000];

static const char *supported(void) {
    return bench_in_guest() ? NULL : "it floods the console: only in a guest";
}

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    memset(line, '#', sizeof line);
    line[sizeof line - 1] = '\n';
    console = open("/dev/console", O_WRONLY | O_NOCTTY);
    if (console < 0)
        bench_fail("cannot open /dev/console");
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++)
        for (size_t at = 0; at < sizeof line;) {
            ssize_t done = write(console, line + at, sizeof line - at);
            if (done <= 0)
                bench_fail("the console takes no more");
            at += (size_t)done;
        }
}

BENCH(fault_flood) = {
    .help = "for tests: write one megabyte to the console",
    .supported = supported,
    .setup = setup,
    .body = body,
};
