// SPDX-License-Identifier: MIT
#include "scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATE "/sys/kernel/sched_ext"
#define BPF_FS "/sys/fs/bpf"

enum { SAID = 768, LOG_LINE = 8192 };

static const char *loaded; // its name; NULL: the kernel schedules by itself

// The first line of a file; empty where there is none.
static void first_line(const char *path, char *line, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, line, size - 1);
    if (fd >= 0)
        close(fd);
    line[got > 0 ? got : 0] = 0;
    line[strcspn(line, "\n")] = 0;
}

// What the kernel's log says of schedulers, the last of it.
static void kernels_words(char *words, size_t size) {
    static char line[LOG_LINE];
    size_t used = 0;
    words[0] = 0;
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    // One line a read; EPIPE: what was next is overwritten already.
    for (ssize_t got; (got = read(fd, line, sizeof line - 1)) > 0 || (got < 0 && errno == EPIPE);) {
        line[got > 0 ? got : 0] = 0;
        char *text = strstr(line, "sched_ext: ");
        if (!text)
            continue;
        text[strcspn(text, "\n")] = 0;
        size_t length = strlen(text += strlen("sched_ext: "));
        if (length > size / 2)
            text[length = size / 2] = 0;
        if (used + length + 3 > size)
            used = 0;
        used += (size_t)snprintf(words + used, size - used, "%s%s", used ? "; " : "", text);
    }
    close(fd);
}

// The loader's exit status, with the end of what it said.
static int run_loader(char *said, size_t size) {
    int fds[2], status = -1;
    size_t used = 0;
    said[0] = 0;
    if (pipe2(fds, O_CLOEXEC))
        return -1;
    pid_t child = fork();
    if (!child) {
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        execl("/scheduler/loader", "loader", "load", "/scheduler/program", BPF_FS "/scheduler",
              (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    for (ssize_t got; child > 0 && (got = read(fds[0], said + used, size - 1 - used)) > 0;) {
        used += (size_t)got;
        if (used == size - 1) {
            memmove(said, said + size / 2, used - size / 2);
            used -= size / 2;
        }
    }
    said[used] = 0;
    close(fds[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

bool scheduler_holds(char *reason, size_t size) {
    char state[64], name[128], words[SAID];
    if (!loaded)
        return true;
    first_line(STATE "/state", state, sizeof state);
    first_line(STATE "/root/ops", name, sizeof name);
    if (!strcmp(state, "enabled") && !strcmp(name, loaded))
        return true;
    kernels_words(words, sizeof words);
    snprintf(reason, size, "scheduler: %s is not in charge (%s, %s): %s", loaded,
             *state ? state : "no sched_ext", *name ? name : "none",
             *words ? words : "the kernel does not say why");
    return false;
}

bool scheduler_load(const char *name, char *reason, size_t size) {
    static char said[SAID];
    if (mount("bpf", BPF_FS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") &&
        errno != EBUSY) {
        snprintf(reason, size, "scheduler: %s: %s", BPF_FS, strerror(errno));
        return false;
    }
    int status = run_loader(said, sizeof said);
    if (status) {
        snprintf(reason, size, "scheduler: %s cannot be loaded: %s", name,
                 *said ? said : strerror(errno));
        return false;
    }
    loaded = name;
    return scheduler_holds(reason, size);
}
