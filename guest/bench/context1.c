// SPDX-License-Identifier: MIT
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static int there[2], back[2];
static pid_t partner;

static _Noreturn void echo(void) {
    unsigned long number;
    close(there[1]);
    close(back[0]);
    while (read(there[0], &number, sizeof number) == sizeof number)
        if (write(back[1], &number, sizeof number) != sizeof number)
            _exit(1);
    _exit(0);
}

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    if (pipe(there) || pipe(back))
        bench_fail("pipe: %s", strerror(errno));
    partner = fork();
    if (partner < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!partner)
        echo();
    close(there[0]);
    close(back[1]);
}

static void body(uint64_t iterations) {
    for (unsigned long i = 0; i < iterations; i++) {
        unsigned long answer;
        if (write(there[1], &i, sizeof i) != sizeof i)
            bench_fail("write to the partner: %s", strerror(errno));
        if (read(back[0], &answer, sizeof answer) != sizeof answer)
            bench_fail("read from the partner: %s", strerror(errno));
        if (answer != i)
            bench_fail("sent %lu to the partner and got %lu back", i, answer);
    }
}

static void cleanup(void) {
    int status;
    close(there[1]);
    if (waitpid(partner, &status, 0) != partner || status)
        bench_fail("the partner ended badly");
}

BENCH(context1) = {
    .help = "two processes pass an unsigned long there and back over two pipes",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
