// SPDX-License-Identifier: MIT
// A small static program, as a test of processes wants it: what fork, exec and exit cost depends on
// the pages that a program touches, so these must not change with every benchmark that comes to the
// guest program. It is carried inside that one; see image.h.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Counts down in its arguments.
static int replace(const char *count, char *self) {
    char left[24];
    unsigned long long now = strtoull(count, NULL, 10);
    if (!now)
        return 0;
    snprintf(left, sizeof left, "%llu", now - 1);
    execl(self, self, "execl", left, self, (char *)NULL);
    return 1;
}

static int forks(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
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
    if (argc == 4 && !strcmp(argv[1], "execl"))
        return replace(argv[2], argv[3]);
    if (argc == 2 && !strcmp(argv[1], "spawn"))
        return serve();
    return 64;
}
