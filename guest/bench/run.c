// SPDX-License-Identifier: MIT
// Any command line. Its output is kept, so that what it says can be read and a failure explained.
//
// A command may print two lines of its own to say what of it is to be timed; what it does before
// and after is not.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "load.h"

enum { KEPT = 64 * 1024, SHOWN = 2048 };
static const char timed_from[] = "kdyno: timed from here", timed_to[] = "kdyno: timed to here";

// The last bytes of a stream; when it is full, the older half goes.
struct tail {
    char bytes[KEPT];
    size_t used;
    int fd;
};

static char **command;
static uint64_t warmups = 1, tasks; // tasks: watch the load, of which so many are asked for
static struct tail out, err;
static struct rusage used;
static struct load load;
static size_t line;                  // where the line of out begins that is not whole yet
static uint64_t from_ns, marked_ns;  // since the last mark; between all marks of a body()
static bool warm, whole_body, noted; // warmed up; a body() without marks; the first was noted

static bool is(const char *wanted, size_t length) {
    return length == strlen(wanted) && !memcmp(out.bytes + line, wanted, length);
}

static void look_for_marks(void) {
    uint64_t now = clock_ns();
    for (char *end; (end = memchr(out.bytes + line, '\n', out.used - line));) {
        size_t length = (size_t)(end - (out.bytes + line));
        if (is(timed_from, length)) {
            from_ns = now;
            bench_mark(true);
        } else if (is(timed_to, length) && from_ns) {
            marked_ns += now - from_ns;
            from_ns = 0;
            whole_body = false;
            bench_mark(false);
        }
        line += length + 1;
    }
}

// False at the end of the stream.
static bool drain(struct tail *tail) {
    for (int turn = 0; turn < 64; turn++) {
        if (tail->used == KEPT) {
            memmove(tail->bytes, tail->bytes + KEPT / 2, KEPT / 2);
            tail->used = KEPT / 2;
            if (tail == &out)
                line = line > KEPT / 2 ? line - KEPT / 2 : 0;
        }
        ssize_t got = read(tail->fd, tail->bytes + tail->used, KEPT - tail->used);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR;
        if (!got)
            return false;
        tail->used += (size_t)got;
        if (tail == &out)
            look_for_marks();
    }
    return true;
}

static _Noreturn void explain(int status) {
    const struct tail *tail = err.used ? &err : &out;
    size_t end = tail->used;
    while (end && tail->bytes[end - 1] == '\n')
        end--;
    size_t shown = end < SHOWN ? end : SHOWN;
    const char *text = tail->bytes + end - shown;
    if (WIFSIGNALED(status))
        bench_fail("%s was killed by signal %d (%s)%s%.*s", command[0], WTERMSIG(status),
                   strsignal(WTERMSIG(status)), shown ? "; its last output: " : "", (int)shown,
                   text);
    bench_fail("%s exited with status %d%s%.*s", command[0], WEXITSTATUS(status),
               shown ? "; its last output: " : "; it said nothing", (int)shown, text);
}

static pid_t start(void) {
    int outs[2], errs[2], news[2];
    if (pipe2(outs, O_CLOEXEC) || pipe2(errs, O_CLOEXEC) || pipe2(news, O_CLOEXEC))
        bench_fail("pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        bench_fail("fork: %s", strerror(errno));
    if (!child) {
        dup2(outs[1], 1);
        dup2(errs[1], 2);
        execvp(command[0], command);
        int why = errno;
        _exit(write(news[1], &why, sizeof why) < 0);
    }
    close(outs[1]);
    close(errs[1]);
    close(news[1]);
    int why;
    if (read(news[0], &why, sizeof why) == sizeof why)
        bench_fail("cannot start %s: %s", command[0], strerror(why));
    close(news[0]);
    fcntl(out.fd = outs[0], F_SETFL, O_NONBLOCK);
    fcntl(err.fd = errs[0], F_SETFL, O_NONBLOCK);
    out.used = err.used = line = 0;
    from_ns = 0; // what the run before began and did not end is over
    return child;
}

static void run_once(void) {
    int status;
    load_start(&load, tasks);
    pid_t child = start();
    int ended = (int)syscall(SYS_pidfd_open, child, 0);
    if (ended < 0)
        bench_fail("pidfd_open: %s", strerror(errno));
    // The command is over when its process is, even if something it started holds the pipes.
    struct pollfd polls[] = {
        {.fd = ended, .events = POLLIN},
        {.fd = out.fd, .events = POLLIN},
        {.fd = err.fd, .events = POLLIN},
    };
    while (!polls[0].revents) {
        if (poll(polls, 3, load_wait_ms(&load)) < 0 && errno != EINTR)
            bench_fail("poll: %s", strerror(errno));
        load_look(&load);
        if (polls[1].revents && !drain(&out))
            polls[1].fd = -1;
        if (polls[2].revents && !drain(&err))
            polls[2].fd = -1;
    }
    drain(&out);
    drain(&err);
    struct rusage one;
    if (wait4(child, &status, 0, &one) != child)
        bench_fail("wait4: %s", strerror(errno));
    close(ended);
    close(out.fd);
    close(err.fd);
    if (status)
        explain(status);
    used = one;
}

static void run_times(uint64_t times) {
    marked_ns = 0;
    whole_body = true;
    for (uint64_t i = 0; i < times; i++)
        run_once();
}

static void setup(int argc, char **argv) {
    bench_waits();
    for (; argc > 1 && !strncmp(argv[0], "--", 2) && argv[0][2]; argc -= 2, argv += 2) {
        if (!strcmp(argv[0], "--figure") && !strcmp(argv[1], "printed"))
            bench_untimed();
        else if (!strcmp(argv[0], "--warmups"))
            warmups = bench_number(argv[1], "--warmups", 0, 100);
        else if (!strcmp(argv[0], "--load"))
            tasks = bench_number(argv[1], "--load", 1, 100000);
        else
            bench_fail("run knows --warmups, --load and --figure printed, not %s %s", argv[0],
                       argv[1]);
    }
    if (argc && !strcmp(argv[0], "--")) {
        argc--;
        argv++;
    }
    if (!argc)
        bench_fail("run wants a command line");
    command = argv;
    if (bench_takes_turns()) {
        warm = true;
        run_times(warmups);
    }
}

static void note_us(const char *key, struct timeval time) {
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRIu64,
                          (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec);
    bench_note(key, text, (size_t)length);
}

// Of the last run.
static void note(void) {
    note_us("last_user_us", used.ru_utime);
    note_us("last_sys_us", used.ru_stime);
    load_note(&load);
    bench_note("stdout", out.bytes, out.used);
    bench_note("stderr", err.bytes, err.used);
}

static void body(uint64_t iterations) {
    if (!warm) { // the harness's first call, which it does not count
        warm = true;
        if (iterations == 1)
            iterations = warmups;
    }
    run_times(iterations);
    // Of those that take turns the first has the machine to itself: what it says is by a clock
    // that stood still for nobody.
    if (bench_takes_turns() && !noted) {
        noted = true;
        note();
    }
}

static uint64_t took(uint64_t iterations) {
    (void)iterations;
    return whole_body ? 0 : marked_ns + 1; // 0 would be: all of it
}

static void cleanup(void) {
    if (!noted)
        note();
}

BENCH(run) = {
    .help = "run a command line to its end, or what it marks",
    .usage = "[--warmups N] [--load TASKS] [--figure printed] [--] COMMAND ARGS...",
    .setup = setup,
    .body = body,
    .took = took,
    .cleanup = cleanup,
};
