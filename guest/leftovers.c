// SPDX-License-Identifier: MIT
#include "leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

static bool alone;

void leftovers_alone(void) {
    alone = true;
}

// Orphans that left the group can be found only by their new parent, which is this process.
static void kill_adopted(void) {
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, list, sizeof list - 1);
    if (fd >= 0)
        close(fd);
    // Only whole numbers: half of one would be somebody else's process.
    while (got > 0 && list[got - 1] != ' ')
        got--;
    list[got > 0 ? got : 0] = 0;
    char *rest = list, *end;
    for (long pid; (pid = strtol(rest, &end, 10)) > 0 && end != rest; rest = end)
        kill((pid_t)pid, SIGKILL);
}

static bool clear(pid_t group, bool alive, const sigset_t *child) {
    for (uint64_t deadline = clock_ns() + 10 * NS_PER_S; clock_ns() < deadline;) {
        kill(-group, SIGKILL);
        if (alive)
            kill(group, SIGKILL); // it may not have got as far as a group of its own
        if (alone || getpid() == 1)
            kill(-1, SIGKILL);
        else
            kill_adopted();
        int status;
        pid_t got;
        while ((got = waitpid(-1, &status, WNOHANG)) > 0)
            if (got == group)
                alive = false;
        if (got < 0 && errno == ECHILD)
            return true;
        // Who dies says so by SIGCHLD; the limit is for those that are adopted meanwhile.
        sigtimedwait(child, NULL, &(struct timespec){.tv_nsec = 2000000});
    }
    return false;
}

bool leftovers_clear(pid_t group, bool alive) {
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    bool gone = clear(group, alive, &child);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return gone;
}
