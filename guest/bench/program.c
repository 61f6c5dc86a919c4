// SPDX-License-Identifier: MIT
// Operations that a program of its own does, because it needs libraries that are not linked into
// this one: guest/programs/*.c. The harness stays here. The program gets a number of operations
// in each line of its standard input and answers when they are done.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { LINE = 1024, SHOWN = 1500 };

static char **command;
static pid_t child;
static int orders, answers, complaints; // complaints: the program's stderr, in memory

// For the reason of a skip: the build leaves NAME.missing where it cannot build NAME.
static void skip_what_was_not_built(const char *path) {
    char name[4096], reason[LINE];
    snprintf(name, sizeof name, "%s.missing", path);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, reason, sizeof reason - 1);
    if (fd >= 0)
        close(fd);
    while (got > 0 && isspace((unsigned char)reason[got - 1]))
        got--;
    if (got > 0) {
        reason[got] = 0;
        bench_skip("%s", reason);
    }
}

static _Noreturn void explain(const char *what) {
    char text[SHOWN + 1];
    int status = 0;
    close(orders);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    off_t size = lseek(complaints, 0, SEEK_END);
    ssize_t got = pread(complaints, text, SHOWN, size > SHOWN ? size - SHOWN : 0);
    while (got > 0 && isspace((unsigned char)text[got - 1]))
        got--;
    text[got > 0 ? got : 0] = 0;
    char end[64] = "";
    if (WIFEXITED(status) && WEXITSTATUS(status))
        snprintf(end, sizeof end, " (exit status %d)", WEXITSTATUS(status));
    else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        snprintf(end, sizeof end, " (%s)", strsignal(WTERMSIG(status)));
    bench_fail("%s %s%s%s%s", command[0], what, end, *text ? "; its last words: " : "", text);
}

// A line without its line feed.
static void hear(char line[LINE]) {
    for (size_t used = 0; used < LINE; used++) {
        ssize_t got;
        while ((got = read(answers, line + used, 1)) < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            explain("ended before it had answered");
        if (line[used] == '\n') {
            line[used] = 0;
            return;
        }
    }
    explain("answers with a line that does not end");
}

static void expect(const char *wanted) {
    char line[LINE];
    hear(line);
    if (!strncmp(line, "skip ", 5))
        bench_skip("%s", line + 5);
    if (!strncmp(line, "fail ", 5))
        explain(line + 5);
    if (strcmp(line, wanted))
        explain("does not keep to what was agreed");
}

static void start(void) {
    int to[2], from[2], news[2], why;
    complaints = memfd_create("complaints", MFD_CLOEXEC);
    if (complaints < 0 || pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC) || pipe2(news, O_CLOEXEC))
        bench_fail("cannot make pipes: %s", strerror(errno));
    child = fork();
    if (child < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        dup2(complaints, 2);
        execv(command[0], command);
        why = errno;
        _exit(write(news[1], &why, sizeof why) < 0);
    }
    close(to[0]);
    close(from[1]);
    close(news[1]);
    orders = to[1];
    answers = from[0];
    if (read(news[0], &why, sizeof why) == sizeof why) {
        if (why == ENOENT)
            skip_what_was_not_built(command[0]);
        if (why == ENOEXEC || why == ELIBBAD)
            bench_skip("this kernel cannot run %s: %s (a 32-bit one runs no 64-bit programs)",
                       command[0], strerror(why));
        bench_fail("cannot start %s: %s", command[0], strerror(why));
    }
    close(news[0]);
}

static void setup(int argc, char **argv) {
    if (!argc)
        bench_fail("program wants the path of a program and perhaps its arguments");
    command = argv;
    signal(SIGPIPE, SIG_IGN);
    start();
    expect("ready");
}

static void body(uint64_t iterations) {
    char order[32];
    int length = snprintf(order, sizeof order, "%" PRIu64 "\n", iterations);
    if (write(orders, order, (size_t)length) != length)
        explain("is gone");
    expect("done");
}

static void cleanup(void) {
    int status;
    close(orders);
    if (waitpid(child, &status, 0) != child || status)
        bench_fail("%s did its work, but ended with wait status %d", command[0], status);
}

BENCH(program) = {
    .help = "an operation of one of kdyno's own programs, which use the system's libraries",
    .usage = "PATH ARGS...",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
