// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        int status;
        pid_t child = fork();
        if (child < 0)
            bench_fail("fork: %s", strerror(errno));
        if (!child)
            exit(0); // as a program would: what its C library does at the end is part of it
        if (waitpid(child, &status, 0) != child || status)
            bench_fail("the child did not end as it should: status %d", status);
    }
}

BENCH(spawn) = {
    .help = "fork, the child exits, the parent waits",
    .body = body,
};
