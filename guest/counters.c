// SPDX-License-Identifier: MIT
#include "counters.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "wire.h"

#define CACHE(which)                                                                               \
    (PERF_COUNT_HW_CACHE_##which | PERF_COUNT_HW_CACHE_OP_READ << 8 |                              \
     PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

// As COUNTERS in src/kdyno/experiment/model.py. The kernel's own events have no sides: they happen
// in the kernel, whoever caused them.
static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
    bool sides;
} events[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, true},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, true},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, true},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, true},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, true},
    {"dtlb-misses", PERF_TYPE_HW_CACHE, CACHE(DTLB), true},
    {"itlb-misses", PERF_TYPE_HW_CACHE, CACHE(ITLB), true},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, true},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, false},
    {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, false},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, false},
};
enum { EVENTS = sizeof events / sizeof *events };

static const char *const sides[] = {"-user", "-kernel", ""};
enum { USER, KERNEL, WHOLE };
enum { MOST = 2 * (COUNTERS_MOST + 1) }; // the metric may be one more
_Static_assert(MOST + 1 + 8 <= WIRE_NOTES_MAX, "and how long, and a program with its load");

struct reading {
    uint64_t count, enabled_ns, running_ns; // as PERF_FORMAT_TOTAL_TIME_* have them
};

static struct counter {
    unsigned event, side;
    int fd;
    struct reading begun[COUNTERS_SPANS];
} counters[MOST];
static unsigned open_count;

unsigned counters_bit(const char *name) {
    for (unsigned at = 0; at < EVENTS; at++)
        if (!strcmp(name, events[at].name))
            return 1u << at;
    return 0;
}

static int open_one(unsigned event, unsigned side) {
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = events[event].type,
        .config = events[event].config,
        .disabled = 1,
        .inherit = 1,
        .exclude_user = side == KERNEL,
        .exclude_kernel = side == USER,
        .exclude_hv = side != WHOLE,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void refusal(unsigned event, int error, char why[COUNTERS_WHY]) {
    const char *reason = strerror(error);
    if (error == EACCES || error == EPERM)
        reason = "it may not be counted in the kernel: sysctl kernel.perf_event_paranoid=1";
    else if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV || error == EINVAL)
        reason = "this CPU, or the virtual machine that it belongs to, does not count it";
    else if (error == ENOSYS)
        reason = "this kernel is without CONFIG_PERF_EVENTS";
    snprintf(why, COUNTERS_WHY, "counter %s: %s", events[event].name, reason);
}

// Opens the set, as far as that goes; returns whether it went to the end.
static bool open_all(unsigned set, char why[COUNTERS_WHY]) {
    for (unsigned event = 0; event < EVENTS; event++)
        for (unsigned side = USER; set & 1u << event && side <= WHOLE; side++) {
            if (events[event].sides == (side == WHOLE))
                continue;
            int fd = open_count < MOST ? open_one(event, side) : (errno = E2BIG, -1);
            if (fd < 0) {
                refusal(event, errno, why);
                return false;
            }
            counters[open_count++] = (struct counter){.event = event, .side = side, .fd = fd};
        }
    return true;
}

bool counters_possible(unsigned set, char why[COUNTERS_WHY]) {
    bool possible = open_all(set, why);
    while (open_count)
        close(counters[--open_count].fd);
    return possible;
}

void counters_open(unsigned set) {
    char why[COUNTERS_WHY];
    if (!open_all(set, why))
        bench_fail("%s", why);
}

// All that this process opened, in all processes that inherited them, by one system call.
void counters_go_on(void) {
    prctl(PR_TASK_PERF_EVENTS_ENABLE);
}

void counters_stop(void) {
    prctl(PR_TASK_PERF_EVENTS_DISABLE);
}

static struct reading now(const struct counter *counter) {
    struct reading reading;
    if (read(counter->fd, &reading, sizeof reading) != sizeof reading)
        bench_fail("counter %s cannot be read", events[counter->event].name);
    return reading;
}

void counters_begin(enum counters_span span) {
    for (unsigned at = 0; at < open_count; at++)
        counters[at].begun[span] = now(&counters[at]);
}

// What it would have counted, had it had the hardware's counter all the time; `share` of it, it
// had: others take turns with it where the CPU has fewer than were asked for.
static double count_of(const struct counter *counter, enum counters_span span, double *share) {
    struct reading from = counter->begun[span], to = now(counter);
    uint64_t enabled_ns = to.enabled_ns - from.enabled_ns;
    uint64_t running_ns = to.running_ns - from.running_ns;
    if (enabled_ns && !running_ns)
        bench_fail(
            "counter %s did not count: others have all of the CPU's counters, such as a "
            "profiler, or more were asked for than there are",
            events[counter->event].name);
    *share = enabled_ns ? (double)running_ns / (double)enabled_ns : 1;
    return (double)(to.count - from.count) / *share;
}

uint64_t counters_of_repetition(unsigned bit) {
    double sum = 0, share;
    for (unsigned at = 0; at < open_count; at++)
        if (bit & 1u << counters[at].event)
            sum += count_of(&counters[at], OF_REPETITION, &share);
    return (uint64_t)(sum + 0.5);
}

static void note(const char *key, double value) {
    char text[48];
    bench_note(key, text, (size_t)snprintf(text, sizeof text, "%.9g", value));
}

void counters_note(unsigned set, uint64_t operations) {
    double least = 1;
    for (unsigned at = 0; at < open_count; at++) {
        const struct counter *counter = &counters[at];
        char key[64];
        double share, count = count_of(counter, OF_CASE, &share);
        least = share < least ? share : least;
        snprintf(key, sizeof key, "counted-%s%s", events[counter->event].name,
                 sides[counter->side]);
        if (set & 1u << counter->event && operations)
            note(key, count / (double)operations);
    }
    if (least < 1)
        note("multiplexed", least);
}
