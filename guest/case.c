// SPDX-License-Identifier: MIT
#include "case.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "leftovers.h"
#include "rights.h"
#include "table.h"

static volatile sig_atomic_t died; // some child, since it was last asked

static void on_child(int signal) {
    (void)signal;
    died = true; // and it ends a ppoll
}

void case_prepare(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP}, NULL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static _Noreturn void child(const struct case_spec *spec, const struct bench *bench, int wire,
                            int orders, void (*in_child)(void)) {
    setsid();
    if (in_child)
        in_child();
    const char *refused = bench_in_guest() ? rights_reduce() : NULL;
    sigset_t none;
    sigemptyset(&none);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    if (null >= 0)
        dup2(null, 0);
    dup2(2, 1); // records may be going to stdout
    // Both out of the way first: either may be where the other belongs.
    wire = fcntl(wire, F_DUPFD, ORDERS_FD + 1);
    orders = orders < 0 ? null : fcntl(orders, F_DUPFD, ORDERS_FD + 1);
    dup3(wire, WIRE_FD, O_CLOEXEC);
    dup3(orders, ORDERS_FD, O_CLOEXEC);
    if (close_range(ORDERS_FD + 1, ~0u, 0))
        for (int fd = ORDERS_FD + 1; fd < 1024; fd++)
            close(fd);
    if (refused) {
        wire_send(WIRE_FD, WIRE_FAIL, refused, strlen(refused));
        _exit(1);
    }
    struct plan plan = spec->plan;
    if (orders != null) {
        plan.turns = true;
        plan.seconds = 0;
        plan.operations = 0;
    }
    harness_run(bench, spec->argc, spec->argv, plan);
}

// Every child that is over: fills in `status` for the case's own process.
static void reap(pid_t pid, bool *ended, int *status) {
    int one;
    for (pid_t got; (got = waitpid(-1, &one, WNOHANG)) > 0;)
        if (got == pid) {
            *ended = true;
            *status = one;
        }
}

// Waits for the case's end or its time limit; returns whether it ended by itself.
static bool follow(pid_t pid, int fd, double timeout_s, struct wire_reader *said, int *status) {
    uint64_t deadline = clock_ns() + (uint64_t)(timeout_s * 1e9);
    bool ended = false, open_pipe = true;
    sigset_t none;
    sigemptyset(&none);
    for (;;) {
        reap(pid, &ended, status);
        if (open_pipe)
            open_pipe = wire_read(said, fd);
        uint64_t now = clock_ns();
        if (ended || now >= deadline)
            break;
        uint64_t left = deadline - now;
        struct timespec wait = {(time_t)(left / NS_PER_S), (long)(left % NS_PER_S)};
        struct pollfd poll = {.fd = open_pipe ? fd : -1, .events = POLLIN};
        ppoll(&poll, 1, &wait, &none);
    }
    if (ended && open_pipe)
        wire_read(said, fd);
    return ended;
}

static void judge(struct case_outcome *outcome, const struct case_spec *spec, bool ended,
                  int status) {
    const struct wire_reader *said = &outcome->said;
    char *reason = outcome->reason;
    size_t size = sizeof outcome->reason;
    outcome->kind = CASE_ERROR;
    if (said->failed) {
        snprintf(reason, size, "%s", said->text);
    } else if (!ended) {
        snprintf(reason, size, "not done after its time limit of %g s", spec->timeout_s);
    } else if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        snprintf(reason, size, "killed by signal %d (%s)%s", number, strsignal(number),
                 number == SIGKILL ? ": perhaps the memory ran out" : "");
    } else if (said->skipped) {
        outcome->kind = CASE_SKIP;
        snprintf(reason, size, "%s", said->text);
    } else if (said->garbled) {
        snprintf(reason, size, "what the case's process wrote makes no sense");
    } else if (!said->done || (!said->rep_count && !said->ready) || WEXITSTATUS(status)) {
        snprintf(reason, size, "exited with status %d without a result", WEXITSTATUS(status));
    } else {
        outcome->kind = CASE_SAMPLE;
    }
}

// Forks the case; with `orders` for turns. False with the reason.
static bool start(const struct case_spec *spec, void (*in_child)(void), bool turns,
                  struct case_process *process, struct case_outcome *outcome) {
    memset(outcome, 0, sizeof *outcome);
    outcome->kind = CASE_ERROR;
    const struct bench *bench = bench_find(spec->bench);
    if (!bench) {
        snprintf(outcome->reason, sizeof outcome->reason,
                 "no benchmark %s in this guest program: kdyno-guest list names them", spec->bench);
        return false;
    }
    int said[2], told[2] = {-1, -1};
    if (pipe2(said, O_CLOEXEC) || (turns && pipe2(told, O_CLOEXEC)) ||
        (process->pid = fork()) < 0) {
        snprintf(outcome->reason, sizeof outcome->reason, "cannot start a process: %s",
                 strerror(errno));
        return false;
    }
    if (!process->pid) {
        close(said[0]);
        close(told[1]);
        child(spec, bench, said[1], told[0], in_child);
    }
    close(said[1]);
    close(told[0]);
    fcntl(said[0], F_SETFL, O_NONBLOCK);
    process->from = said[0];
    process->orders = told[1];
    return true;
}

void case_run(const struct case_spec *spec, void (*in_child)(void), struct case_outcome *outcome) {
    struct case_process process;
    if (!start(spec, in_child, false, &process, outcome))
        return;
    int status = 0;
    bool ended = follow(process.pid, process.from, spec->timeout_s, &outcome->said, &status);
    case_close(&process, spec, ended, status, outcome);
}

bool case_open(const struct case_spec *spec, void (*in_child)(void), struct case_process *process,
               struct case_outcome *outcome) {
    return start(spec, in_child, true, process, outcome);
}

bool case_follow(const struct case_process *process, bool spoke, struct case_outcome *outcome,
                 int *status) {
    bool ended = false;
    // At the end of the stream as well: a ppoll that has something to read takes no signals.
    bool silent = spoke && !wire_read_once(&outcome->said, process->from);
    if (silent || died) {
        died = false;
        reap(process->pid, &ended, status);
    }
    if (ended)
        wire_read(&outcome->said, process->from);
    return ended;
}

void case_close(const struct case_process *process, const struct case_spec *spec, bool ended,
                int status, struct case_outcome *outcome) {
    bool cleared = leftovers_clear(process->pid, !ended);
    close(process->from);
    if (process->orders >= 0)
        close(process->orders);
    judge(outcome, spec, ended, status);
    if (!cleared) {
        outcome->kind = CASE_ERROR;
        snprintf(outcome->reason, sizeof outcome->reason,
                 "left a process behind that cannot be killed");
    }
}

void case_write(struct json *json, const struct case_outcome *outcome) {
    const struct wire_reader *said = &outcome->said;
    json_key(json, "reps");
    json_raw(json, "[");
    for (size_t i = 0; i < said->rep_count; i++) {
        char pair[64];
        snprintf(pair, sizeof pair, "%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "",
                 said->reps[i].operations, said->reps[i].ns);
        json_raw(json, pair);
    }
    json_raw(json, "]");
    json_number(json, "user_ns", said->figures.user_ns);
    json_number(json, "sys_ns", said->figures.sys_ns);
    json_number(json, "calibration_ns", said->figures.calibration_ns);
    json_key(json, "extra");
    json_raw(json, "{");
    for (size_t i = 0; i < said->note_count; i++) {
        json_key(json, said->notes[i].key);
        json_quote(json, said->note_bytes + said->notes[i].start, said->notes[i].length);
    }
    json_raw(json, "}");
}
