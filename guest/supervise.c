// SPDX-License-Identifier: MIT
// Host side: runs a command (the UML process), leaves nothing of it behind, and reports the CPU
// time of everything it started. UML's user space lives in processes of its own, which may outlive
// the one that was started: whoever reaps them has their time. So this adopts orphans.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "leftovers.h"
#include "verbs.h"

enum { OUTPUTS_MAX = 16, OUTPUT_BYTES_MAX = 64 << 20 };

struct order {
    int report_fd;
    int input_fd, output_fd; // of the command; -1: this program's own
    rlim_t fsize;
    bool fixed_addresses, alone;
    struct {
        const char *name;
        int fd;
    } outputs[OUTPUTS_MAX];
    int output_count;
    char **command;
};

static volatile sig_atomic_t group; // of the command, for the signal handler

static void forward(int signal) {
    if (group > 0)
        kill(-(pid_t)group, signal);
}

static void end(int signal) {
    (void)signal;
    if (group > 0)
        kill(-(pid_t)group, SIGKILL); // the others are adopted, and end with it
}

// A sandbox ends with kdyno by itself. Without one this process does, also when kdyno is killed,
// and takes the command with it. False: it is gone already, and so is who would read the report.
static bool die_with_parent(int report_fd) {
    struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    struct pollfd reader = {.fd = report_fd};
    return poll(&reader, 1, 0) <= 0 || !(reader.revents & POLLERR);
}

static bool whole(const char *text, unsigned long long most, unsigned long long *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *value <= most;
}

static bool read_order(struct order *order, int argc, char **argv) {
    *order =
        (struct order){.report_fd = -1, .input_fd = -1, .output_fd = -1, .fsize = RLIM_INFINITY};
    unsigned long long value;
    for (int at = 0; at + 1 < argc; at += 2) {
        char *text = argv[at + 1];
        if (!strcmp(argv[at], "--")) {
            order->command = argv + at + 1;
            break;
        } else if (!strcmp(argv[at], "--report-fd") && whole(text, 1 << 20, &value)) {
            order->report_fd = (int)value;
        } else if (!strcmp(argv[at], "--stdin") && whole(text, 1 << 20, &value)) {
            order->input_fd = (int)value;
        } else if (!strcmp(argv[at], "--stdout") && whole(text, 1 << 20, &value)) {
            order->output_fd = (int)value;
        } else if (!strcmp(argv[at], "--fsize") && whole(text, UINT64_MAX / 2, &value)) {
            order->fsize = (rlim_t)value;
        } else if (!strcmp(argv[at], "--addresses") && !strcmp(text, "fixed")) {
            order->fixed_addresses = true;
        } else if (!strcmp(argv[at], "--alone") && !strcmp(text, "yes")) {
            order->alone = true;
        } else if (!strcmp(argv[at], "--output") && order->output_count < OUTPUTS_MAX) {
            char *colon = strrchr(text, ':');
            if (!colon || !whole(colon + 1, 1 << 20, &value))
                return false;
            *colon = 0;
            order->outputs[order->output_count].name = text;
            order->outputs[order->output_count++].fd = (int)value;
        } else {
            return false;
        }
    }
    return order->command && order->report_fd >= 0;
}

static _Noreturn void become(const struct order *order) {
    setpgid(0, 0);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    close(order->report_fd);
    for (int i = 0; i < order->output_count; i++)
        close(order->outputs[i].fd);
    if (order->input_fd >= 0)
        dup2(order->input_fd, 0);
    if (order->output_fd >= 0)
        dup2(order->output_fd, 1);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){order->fsize, order->fsize});
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    // Where it may not be asked for, the kernel's process does without it as well.
    if (order->fixed_addresses)
        personality(PER_LINUX | ADDR_NO_RANDOMIZE);
    execvp(order->command[0], order->command);
    fprintf(stderr, "kdyno-guest: cannot start %s: %s\n", order->command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static int wait_for_all(pid_t pid) {
    int status;
    for (pid_t got; (got = waitpid(-1, &status, 0)) != pid;)
        if (got < 0 && errno != EINTR)
            return 255;
    leftovers_clear(pid, false);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// A regular file of the command's, never what it points to: the command is not trusted.
static void hand_over(const char *name, int to) {
    static char block[1 << 16];
    struct stat about;
    int from = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0)
        return;
    size_t left = OUTPUT_BYTES_MAX;
    if (!fstat(from, &about) && S_ISREG(about.st_mode))
        for (ssize_t got; left && (got = read(from, block, sizeof block)) > 0;) {
            size_t kept = (size_t)got < left ? (size_t)got : left;
            for (size_t at = 0; at < kept;) {
                ssize_t done = write(to, block + at, kept - at);
                if (done < 0 && errno == EINTR)
                    continue;
                if (done <= 0)
                    goto out;
                at += (size_t)done;
            }
            left -= kept;
        }
out:
    close(from);
}

static uint64_t time_us(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static bool report(int fd, int status, uint64_t start_ns) {
    char line[256];
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    int length = snprintf(line, sizeof line,
                          "{\"status\":%d,\"user_us\":%" PRIu64 ",\"sys_us\":%" PRIu64
                          ",\"maxrss_kb\":%ld,\"wall_us\":%" PRIu64 "}\n",
                          status, time_us(used.ru_utime), time_us(used.ru_stime), used.ru_maxrss,
                          (clock_ns() - start_ns) / 1000);
    return write(fd, line, (size_t)length) == length;
}

int verb_supervise(int argc, char **argv) {
    struct order order;
    if (!read_order(&order, argc, argv)) {
        fprintf(stderr,
                "kdyno-guest: supervise wants --report-fd N [--fsize BYTES] "
                "[--addresses fixed] [--alone yes] [--stdin FD] [--stdout FD] "
                "[--output NAME:FD]... -- COMMAND\n");
        return EXIT_USAGE;
    }
    // Whatever was said: where others came before, "all processes" would be the machine's.
    if (order.alone && getpid() > 2) {
        fprintf(stderr, "kdyno-guest: --alone is for the first or second process of a sandbox\n");
        return EXIT_USAGE;
    }
    if (order.alone)
        leftovers_alone();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGHUP);
    sigaddset(&both, SIGUSR1);
    sigprocmask(SIG_BLOCK, &both, &before); // until the command has a group to forward to
    struct sigaction action = {.sa_handler = forward, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (!order.alone && !die_with_parent(order.report_fd))
        return 1;
    uint64_t start_ns = clock_ns();
    pid_t pid = fork();
    if (pid < 0) {
        fprintf(stderr, "kdyno-guest: cannot start a process: %s\n", strerror(errno));
        return 1;
    }
    if (!pid) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        become(&order);
    }
    setpgid(pid, pid);
    group = pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    int status = wait_for_all(pid);
    // Last, so that a report means that the outputs are whole.
    for (int i = 0; i < order.output_count; i++)
        hand_over(order.outputs[i].name, order.outputs[i].fd);
    return report(order.report_fd, status, start_ns) ? 0 : 1;
}
