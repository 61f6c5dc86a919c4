// SPDX-License-Identifier: MIT
// A small static program, as a test of processes wants it: what fork, exec and exit cost depends on
// the pages that a program touches, so these must not change with every benchmark that comes to the
// guest program. It is carried inside that one; see image.h.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t forked; // in memory: each fork makes the parent copy its page, as it would

// Counts down in its arguments, and looks at the clock, as UnixBench's does: a program that did
// less would touch six of 31 pages fewer.
static int replace(const char *count, const char *before, char *self) {
    char left[24], when[24];
    unsigned long seconds;
    unsigned long long now = strtoull(count, NULL, 10);
    if (sscanf(before, "%lu", &seconds) != 1)
        return 1;
    if (!now)
        return 0;
    snprintf(left, sizeof left, "%llu", now - 1);
    snprintf(when, sizeof when, "%lu", (unsigned long)time(NULL));
    execl(self, self, "execl", left, when, self, (char *)NULL);
    return 1;
}

static int forks(uint64_t count) {
    for (forked = 0; forked < count; forked++) {
        int status;
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (!child)
            exit(0); // as a program would: what its C library does at the end is part of it
        if (waitpid(child, &status, 0) != child || status)
            return 2;
    }
    return 0;
}

// A number of forks comes in on the standard input, and goes back when they are done.
static int serve(void) {
    uint64_t count;
    int status = 0;
    while (!status && read(0, &count, sizeof count) == sizeof count)
        if ((status = forks(count)) || write(1, &count, sizeof count) != sizeof count)
            return status ? status : 3;
    return status;
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "execl"))
        return replace(argv[2], argv[3], argv[4]);
    if (argc == 2 && !strcmp(argv[1], "spawn"))
        return serve();
    return 64;
}
