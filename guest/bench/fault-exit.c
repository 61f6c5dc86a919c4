// SPDX-License-Identifier: MIT
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static int mode;

static void setup(int argc, char **argv) {
    static const char *const modes[] = {"status", "kill", "orphan"};
    for (int i = 0; argc == 1 && i < 3; i++)
        if (!strcmp(argv[0], modes[i])) {
            mode = i;
            return;
        }
    bench_fail("fault-exit wants one of status, kill, orphan");
}

static void body(uint64_t iterations) {
    (void)iterations;
    if (mode == 1 && bench_in_guest())
        kill(-1, SIGKILL);
    if (mode == 2 && !fork()) {
        setsid();
        for (;;)
            pause();
    }
    _exit(3);
}

BENCH(fault_exit) = {
    .help = "for tests: a case that exits without a word, kills all it can, or leaves an orphan",
    .usage = "status|kill|orphan",
    .setup = setup,
    .body = body,
};
