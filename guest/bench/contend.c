// SPDX-License-Identifier: MIT
// Processes that compute without end, and one that sleeps and wakes up among them. An operation is
// one sleep; its figure is not the time that passes, but what the first argument says.
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"

enum { BUSY_MOST = 64, WAITS_MOST = 1 << 16, UNIT = 2000, LINE = 64 };

// Of one busy process; it writes, the sleeper reads.
struct work {
    volatile uint64_t units;
    volatile uint64_t away_ns; // the longest time between two units
    volatile uint64_t moves;   // from one CPU to another
    char apart[LINE - 3 * sizeof(uint64_t)];
};

static struct work *works;
static pid_t pids[BUSY_MOST];
static uint64_t before[BUSY_MOST], waits[WAITS_MOST], wait_count;
static uint64_t busy, period_ns = 20 * 1000000, burst_units, parts, freed;
static double figure_ns;
static const char *nices = "", *cpus = "";
static enum { MEDIAN, P99, MOST, WORK } figure;

// Additions in registers alone. With one that wrote to memory, how that address lay to others of an
// emulator decided between 4.0, 4.4 and 11 us a unit, from boot to boot and within one.
static void unit(void) {
    uint64_t one = 1, other = 1;
    for (int i = 0; i < UNIT; i++) {
        one += other;
        __asm__ volatile("" : "+r"(one), "+r"(other));
        other += one;
        __asm__ volatile("" : "+r"(one), "+r"(other));
        one += other;
        __asm__ volatile("" : "+r"(one), "+r"(other));
    }
}

// The number at `index` of a list "0,5,-3"; the last one stands for all after it. Empty: `none`.
static long listed(const char *list, uint64_t index, long none) {
    if (!*list)
        return none;
    for (const char *comma; index-- && (comma = strchr(list, ','));)
        list = comma + 1;
    return strtol(list, NULL, 10);
}

static void place(long nice_value, long cpu) {
    if (setpriority(PRIO_PROCESS, 0, (int)nice_value))
        bench_fail("nice %ld: %s", nice_value, strerror(errno));
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(cpu < 0 ? 0 : cpu), &set);
    if (cpu >= 0 && sched_setaffinity(0, sizeof set, &set))
        bench_fail("CPU %ld: %s", cpu, strerror(errno));
}

static _Noreturn void compute(struct work *own) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int cpu = sched_getcpu();
    for (uint64_t last = clock_ns();;) {
        unit();
        uint64_t now = clock_ns();
        if (now - last > own->away_ns)
            own->away_ns = now - last;
        last = now;
        int seen = sched_getcpu();
        own->moves += seen != cpu;
        cpu = seen;
        own->units++;
    }
}

static void start(uint64_t index) {
    pids[index] = fork();
    if (pids[index] < 0)
        bench_fail("fork: %s", strerror(errno));
    if (pids[index])
        return;
    place(listed(nices, index, 0), listed(cpus, index, -1));
    compute(&works[index]);
}

static void setup(int argc, char **argv) {
    bench_untimed();
    static const char *const names[] = {"median", "p99", "max", "work"};
    if (argc < 2)
        bench_fail("contend wants %s", "median|p99|max|work BUSY");
    for (figure = MEDIAN; figure < WORK && strcmp(argv[0], names[figure]);)
        figure++;
    if (strcmp(argv[0], names[figure]))
        bench_fail("contend has no figure %s, but median, p99, max and work", argv[0]);
    busy = bench_number(argv[1], "BUSY", figure == WORK, BUSY_MOST);
    for (argc -= 2, argv += 2; argc > 1; argc -= 2, argv += 2) {
        if (!strcmp(argv[0], "--period-us"))
            period_ns = 1000 * bench_number(argv[1], argv[0], 10, 10000000);
        else if (!strcmp(argv[0], "--burst"))
            burst_units = bench_number(argv[1], argv[0], 0, 1000000000);
        else if (!strcmp(argv[0], "--nice"))
            nices = argv[1];
        else if (!strcmp(argv[0], "--free"))
            freed = bench_number(argv[1], argv[0], 0, 1000000);
        else if (!strcmp(argv[0], "--cpu"))
            cpus = argv[1];
        else
            bench_fail("contend knows --period-us, --burst, --nice, --cpu and --free, not %s",
                       argv[0]);
    }
    if (argc)
        bench_fail("contend: %s wants a value", argv[0]);
    works = mmap(NULL, BUSY_MOST * sizeof *works, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (works == MAP_FAILED)
        bench_fail("mmap: %s", strerror(errno));
    for (uint64_t i = 0; i < busy; i++)
        start(i);
}

static void again(void) {
    wait_count = 0;
    for (uint64_t i = 0; i < busy; i++) {
        before[i] = works[i].units;
        works[i].away_ns = works[i].moves = 0;
    }
}

static int by_size(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

// Of sorted numbers: the least that so many hundredths are not above.
static uint64_t percentile(uint64_t hundredths) {
    uint64_t rank = (wait_count * hundredths + 99) / 100;
    return waits[rank ? rank - 1 : 0];
}

// From now on they may run on any CPU.
static void set_free(void) {
    cpu_set_t any;
    memset(&any, 0xff, sizeof any);
    for (uint64_t i = 0; i < busy; i++)
        if (sched_setaffinity(pids[i], sizeof any, &any))
            bench_fail("cannot set process %" PRIu64 " free: %s", i, strerror(errno));
}

static void body(uint64_t iterations) {
    again();
    if (++parts == freed)
        set_free();
    uint64_t began = clock_ns(), next = began, done = 0;
    for (uint64_t i = 0; i < iterations; i++) {
        next += period_ns;
        struct timespec at = {(time_t)(next / NS_PER_S), (long)(next % NS_PER_S)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
            ;
        uint64_t now = clock_ns();
        if (wait_count < WAITS_MOST)
            waits[wait_count++] = now - next;
        for (uint64_t n = 0; n < burst_units; n++)
            unit();
        now = clock_ns();
        if (now > next)
            next = now; // who was late sleeps a whole period all the same
    }
    uint64_t took = clock_ns() - began;
    for (uint64_t i = 0; i < busy; i++)
        done += works[i].units - before[i];
    qsort(waits, wait_count, sizeof *waits, by_size);
    if (figure == WORK)
        figure_ns = done ? (double)took / (double)done : (double)took;
    else
        figure_ns = (double)percentile(figure == MEDIAN ? 50 : figure == P99 ? 99 : 100);
}

static uint64_t took(uint64_t iterations) {
    uint64_t ns = (uint64_t)(figure_ns * (double)iterations);
    return ns ? ns : 1;
}

static uint64_t work_of(uint64_t index) {
    return works[index].units - before[index];
}

static uint64_t away_of(uint64_t index) {
    return works[index].away_ns;
}

static uint64_t moves_of(uint64_t index) {
    return works[index].moves;
}

static void note_each(const char *key, uint64_t (*value)(uint64_t index)) {
    char text[BUSY_MOST * 24] = "";
    size_t used = 0;
    for (uint64_t i = 0; i < busy; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu64, i ? " " : "", value(i));
    bench_note(key, text, used);
}

// Of the last part: all figures, whichever was asked for.
static void cleanup(void) {
    char text[80];
    note_each("work", work_of);
    note_each("away_ns", away_of);
    note_each("moves", moves_of);
    bench_note("waits_ns", text,
               (size_t)snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRIu64,
                                percentile(50), percentile(99), percentile(100)));
    for (uint64_t i = 0; i < busy; i++)
        kill(pids[i], SIGKILL);
}

BENCH(contend) = {
    .help =
        "one sleep of a process among others that compute: how late it wakes up, or what a "
        "unit of their work takes",
    .usage =
        "median|p99|max|work BUSY [--period-us N] [--burst UNITS] [--nice N,N…] [--cpu N,N…] "
        "[--free PART]",
    .setup = setup,
    .body = body,
    .took = took,
    .cleanup = cleanup,
};
