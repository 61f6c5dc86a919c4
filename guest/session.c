// SPDX-License-Identifier: MIT
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "counters.h"
#include "scheduler.h"
#include "turns.h"

enum { PROTOCOL = 1 };

// How a native x86-64 kernel copies, as its alternatives follow from the CPU features that it left
// itself: "fsrm" (rep movsb for every memcpy), "erms" (for what comes from and goes to programs),
// "plain" (neither). NULL where there is no such kernel.
static const char *copies(void) {
    char text[4096];
    int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    char *flags = strstr(text, "\nflags\t");
    if (!flags || strstr(text, "User Mode Linux"))
        return NULL;
    flags[1 + strcspn(flags + 1, "\n")] = 0;
    return strstr(flags, " fsrm") ? "fsrm" : strstr(flags, " erms") ? "erms" : "plain";
}

static size_t scattered;

void session_scattered(size_t pages) {
    scattered = pages;
}

static bool hello(void) {
    struct utsname name;
    struct sysinfo info;
    cpu_set_t cpus;
    uname(&name);
    sysinfo(&info);
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    struct json *record = channel_record("hello");
    json_number(record, "protocol", PROTOCOL);
    json_text(record, "release", name.release);
    json_text(record, "machine", name.machine);
    json_number(record, "word_bits", sizeof(void *) * 8);
    json_number(record, "cpus", (uint64_t)CPU_COUNT(&cpus));
    json_number(record, "mem_kb", (uint64_t)info.totalram * info.mem_unit / 1024);
    json_number(record, "mono_ns", clock_ns());
    const char *how = copies();
    if (how)
        json_text(record, "copies", how);
    if (scattered)
        json_number(record, "scattered", scattered);
    return channel_send();
}

static int sysctl_open(const char *name, int flags) {
    char path[300];
    int start = snprintf(path, sizeof path, "/proc/sys/%s", name) - (int)strlen(name);
    // As sysctl(8): a name that has a slash before any dot is a path already.
    if (path[start + (int)strcspn(path + start, "./")] == '.')
        for (char *at = path + start; *at; at++)
            if (*at == '.')
                *at = '/';
    return strstr(path, "..") ? (errno = EINVAL, -1) : open(path, flags | O_CLOEXEC);
}

// The kernel may take a number and set another: as many huge pages as there are.
static bool sysctl_holds(const char *name, const char *value, char *reason, size_t size) {
    char now[32] = "", *end;
    int fd = sysctl_open(name, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, now, sizeof now - 1);
    if (fd >= 0)
        close(fd);
    long long wanted = strtoll(value, &end, 10);
    bool number = end != value && !*end;
    now[length > 0 && now[length - 1] == '\n' ? length - 1 : 0] = '\0';
    long long is = strtoll(now, &end, 10);
    if (!number || end == now || *end || is == wanted)
        return true;
    snprintf(reason, size, "sysctl %s = %s: it is %s", name, value, now);
    return false;
}

static bool apply_sysctl(const char *name, const char *value, char *reason, size_t size) {
    int fd = sysctl_open(name, O_WRONLY);
    ssize_t done = fd < 0 ? -1 : write(fd, value, strlen(value));
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (done == (ssize_t)strlen(value))
        return sysctl_holds(name, value, reason, size);
    snprintf(reason, size, "sysctl %s = %s: %s", name, value,
             error == ENOENT ? "this kernel has no such setting" : strerror(error));
    return false;
}

// A kernel with count-copies.patch counts during cases only. In any other the file is not there.
static void count_copies(const char *on) {
    int fd = open("/proc/kdyno-copies", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, on, 1) != 1)
        fprintf(stderr, "kdyno-guest: cannot switch the counting of copies: %s\n", strerror(errno));
    close(fd);
}

bool session_scheduled(void) {
    char reason[1024];
    if (scheduler_holds(reason, sizeof reason))
        return true;
    channel_say("fatal", -1, reason);
    return false;
}

static bool run_case(const struct job *job, size_t index) {
    static struct case_outcome outcome; // too large for a stack
    const struct case_spec *spec = &job->cases[index];
    if (!session_scheduled())
        return false;
    struct json *record = channel_record("begin");
    json_number(record, "case", index);
    json_text(record, "bench", spec->bench);
    json_number(record, "mono_ns", clock_ns());
    if (!channel_send())
        return false;
    count_copies("1");
    case_run(spec, channel_forget, &outcome);
    count_copies("0");
    if (!session_scheduled()) // whatever was measured
        return false;
    if (outcome.kind == CASE_SAMPLE) {
        record = channel_record("sample");
        json_number(record, "case", index);
        case_write(record, &outcome);
    } else {
        record = channel_record(outcome.kind == CASE_SKIP ? "skip" : "error");
        json_number(record, "case", index);
        json_text(record, "reason", outcome.reason);
    }
    json_number(record, "mono_ns", clock_ns());
    return channel_send();
}

bool session_run(const struct job *job, void (*tidy)(void)) {
    char reason[1024];
    uint64_t inside_ns = 0;
    if (!hello())
        return false;
    for (size_t i = 0; i < job->sysctl_count; i++)
        if (!apply_sysctl(job->sysctls[i][0], job->sysctls[i][1], reason, sizeof reason)) {
            channel_say("fatal", -1, reason);
            return false;
        }
    if (job->counters | job->metric) {
        if (bench_in_guest()) // its cases have fewer rights than this process, and count the kernel
            apply_sysctl("kernel.perf_event_paranoid", "-1", reason, sizeof reason);
        if (!counters_possible(job->counters | job->metric, reason)) {
            channel_say("fatal", -1, reason);
            return false;
        }
    }
    case_prepare();
    if (job->turns && !turns_serve(job, run_case, tidy, &inside_ns))
        return false;
    for (size_t i = 0; !job->turns && i < job->case_count; i++) {
        uint64_t start = clock_ns();
        if (!run_case(job, i))
            return false;
        inside_ns += clock_ns() - start;
        if (tidy)
            tidy();
    }
    struct json *record = channel_record("bye");
    json_number(record, "mono_ns", clock_ns());
    json_number(record, "inside_ns", inside_ns);
    return channel_send();
}
