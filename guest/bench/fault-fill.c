// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const char *supported(void) {
    return bench_in_guest() ? NULL : "it fills the folders it is given: only in a guest";
}

static void setup(int argc, char **argv) {
    static char zeros[1 << 20];
    for (int i = 0; i < argc; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/fault-fill", argv[i]);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        if (fd < 0)
            bench_fail("cannot create %s: %s", path, strerror(errno));
        while (write(fd, zeros, sizeof zeros) > 0)
            ;
        close(fd);
    }
    bench_fail("all full");
}

static void body(uint64_t iterations) {
    (void)iterations;
}

BENCH(fault_fill) = {
    .help = "for tests: a case that fills folders until nothing more fits",
    .usage = "FOLDER...",
    .supported = supported,
    .setup = setup,
    .body = body,
};
