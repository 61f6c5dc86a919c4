// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const char *supported(void) {
    return bench_in_guest() ? NULL : "it crashes the kernel: only in a guest";
}

static void put(const char *path, const char *text) {
    int fd = open(path, O_WRONLY);
    if (fd >= 0) {
        if (write(fd, text, strlen(text)) < 0)
            bench_fail("cannot write %s to %s", text, path);
        close(fd);
    }
}

static void body(uint64_t iterations) {
    (void)iterations;
    put("/proc/sysrq-trigger", "c");
    // A kernel without sysrq can be told to panic when its memory runs out.
    put("/proc/sys/vm/panic_on_oom", "2");
    for (;;) {
        char *more = malloc(1 << 20);
        if (!more)
            bench_fail("the kernel did not panic");
        memset(more, 1, 1 << 20);
    }
}

BENCH(fault_panic) = {
    .help = "for tests: a case that makes the kernel panic",
    .supported = supported,
    .body = body,
};
