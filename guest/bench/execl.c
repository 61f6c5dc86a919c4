// SPDX-License-Identifier: MIT
// One process executes itself again and again and counts down in its arguments. It is a child of
// the process that holds the clock: one fork for a whole repetition does not show.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "image.h"

static char image[4096];

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    image_write(image, sizeof image);
}

static void cleanup(void) {
    unlink(image);
}

static void body(uint64_t iterations) {
    char left[24];
    int status;
    snprintf(left, sizeof left, "%" PRIu64, iterations - 1);
    pid_t child = fork();
    if (child < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!child) {
        execl(image, image, "execl", left, "0", image, (char *)NULL);
        _exit(1);
    }
    if (waitpid(child, &status, 0) != child || status) {
        unlink(image);
        bench_fail(
            "%s could not execute itself to the end (status %d); is programs' execution "
            "forbidden there? $KDYNO_DIR names another folder",
            image, status);
    }
}

BENCH(execl) = {
    .help = "a process replaces itself by execl, with a counter in its arguments",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
