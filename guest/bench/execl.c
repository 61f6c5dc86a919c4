// SPDX-License-Identifier: MIT
// One process executes itself again and again and counts down in its arguments. It is a child of
// the process that holds the clock: one fork for a whole repetition does not show. It runs from a
// copy in the working folder, because in a guest this program itself may lie on the host.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static char copy[4096];

static void copy_self(int from, int to) {
    static char block[1 << 16];
    ssize_t got;
    while ((got = read(from, block, sizeof block)) > 0)
        if (write(to, block, (size_t)got) != got)
            bench_fail("cannot write %s: no space left?", copy);
    if (got < 0)
        bench_fail("cannot read this program: %s", strerror(errno));
}

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    snprintf(copy, sizeof copy, "%s/kdyno-execl-%d", bench_dir(), (int)getpid());
    int from = open("/proc/self/exe", O_RDONLY);
    int to = open(copy, O_WRONLY | O_CREAT | O_EXCL, 0700);
    if (from < 0 || to < 0)
        bench_fail("cannot copy this program to %s: %s", copy, strerror(errno));
    copy_self(from, to);
    close(from);
    close(to);
}

static void cleanup(void) {
    unlink(copy);
}

static int helper(int argc, char **argv) {
    char left[24];
    if (argc != 2)
        return 2;
    uint64_t count = strtoull(argv[0], NULL, 10);
    if (!count)
        return 0;
    snprintf(left, sizeof left, "%" PRIu64, count - 1);
    execl(argv[1], argv[1], "helper", "execl", left, argv[1], (char *)NULL);
    return 1;
}

static void body(uint64_t iterations) {
    char left[24];
    int status;
    snprintf(left, sizeof left, "%" PRIu64, iterations - 1);
    pid_t child = fork();
    if (child < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!child) {
        execl(copy, copy, "helper", "execl", left, copy, (char *)NULL);
        _exit(1);
    }
    if (waitpid(child, &status, 0) != child || status) {
        unlink(copy);
        bench_fail(
            "%s could not execute itself to the end (status %d); is programs' execution "
            "forbidden there? $KDYNO_DIR names another folder",
            copy, status);
    }
}

BENCH(execl) = {
    .help = "a process replaces itself by execl, with a counter in its arguments",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
    .helper = helper,
};
