// SPDX-License-Identifier: MIT
// The process that forks is a small program of its own; here are the clock and the pipes to it.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "image.h"

static int orders, answers;
static pid_t parent;

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    char image[4096];
    int to[2], from[2];
    uint64_t none = 0;
    if (pipe(to) || pipe(from))
        bench_fail("pipe: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    image_write(image, sizeof image);
    parent = fork();
    if (parent < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!parent) {
        signal(SIGPIPE, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (int end = 0; end < 2; end++) {
            close(to[end]);
            close(from[end]);
        }
        execl(image, image, "spawn", (char *)NULL);
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    orders = to[1];
    answers = from[0];
    bool runs = write(orders, &none, sizeof none) == sizeof none &&
                read(answers, &none, sizeof none) == sizeof none;
    unlink(image);
    if (!runs)
        bench_fail(
            "%s cannot be executed; is programs' execution forbidden there? $KDYNO_DIR "
            "names another folder",
            image);
}

static void body(uint64_t iterations) {
    uint64_t done = 0;
    if (write(orders, &iterations, sizeof iterations) != sizeof iterations ||
        read(answers, &done, sizeof done) != sizeof done || done != iterations) {
        int status = 0;
        close(orders);
        waitpid(parent, &status, 0);
        bench_fail("a fork or its wait failed before %" PRIu64 " were done (status %d)", iterations,
                   status);
    }
}

static void cleanup(void) {
    int status;
    close(orders);
    if (waitpid(parent, &status, 0) != parent || status)
        bench_fail("the process that forks ended badly: status %d", status);
}

BENCH(spawn) = {
    .help = "fork, the child exits, the parent waits",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
