// SPDX-License-Identifier: MIT
#include "harness.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "counters.h"
#include "wire.h"

enum { REPS_LEAST = 5, REPS_MOST = 256, PARTS = 8 };
// Of a fixed number of operations. Where instructions are counted parts are as short as records
// allow: a tick, a refill of a list or another state of the scheduler is in few of them then.
enum { FIXED_PARTS = 9, COUNTED_PARTS = 400 };
static const uint64_t rep_least_ns = 1000000; // below that the clock and its reading show

static bool in_guest, untimed, counts, by_cpu, by_turns;
static unsigned shift; // where it counts: an instruction takes 1 << shift ns of the clock
static unsigned counters, metric; // as the plan's
static uint64_t counted;          // operations, since counters_begin(OF_CASE)

void harness_enter_guest(void) {
    in_guest = true;
}

void harness_count(unsigned clock_shift) {
    counts = true;
    shift = clock_shift;
}

void bench_waits(void) {
    by_cpu = counts;
}

bool bench_takes_turns(void) {
    return by_turns;
}

void bench_mark(bool begins) {
    if (by_turns)
        wire_send(WIRE_FD, WIRE_MARK, &(unsigned char){begins}, 1);
}

bool bench_in_guest(void) {
    return in_guest;
}

const char *bench_dir(void) {
    const char *dir = getenv("KDYNO_DIR");
    return dir && *dir ? dir : "/tmp";
}

static _Noreturn void say_last(enum wire_type type, int status, const char *format,
                               va_list values) {
    char text[WIRE_TEXT_MAX];
    int length = vsnprintf(text, sizeof text, format, values);
    size_t kept = length < 0 ? 0 : (size_t)length;
    wire_send(WIRE_FD, type, text, kept < sizeof text ? kept : sizeof text - 1);
    _exit(status);
}

void bench_fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    say_last(WIRE_FAIL, 1, format, values);
}

void bench_skip(const char *format, ...) {
    va_list values;
    va_start(values, format);
    say_last(WIRE_SKIP, 0, format, values);
}

void bench_note(const char *key, const void *bytes, size_t length) {
    static char payload[WIRE_KEY_MAX + WIRE_NOTE_BYTES_MAX];
    size_t prefix = strlen(key) + 1;
    if (prefix > WIRE_KEY_MAX)
        bench_fail("the name %s of a note is longer than %d bytes", key, WIRE_KEY_MAX - 1);
    if (length > WIRE_NOTE_BYTES_MAX)
        length = WIRE_NOTE_BYTES_MAX;
    memcpy(payload, key, prefix);
    memcpy(payload + prefix, bytes, length);
    wire_send(WIRE_FD, WIRE_NOTE, payload, prefix + length);
}

uint64_t bench_number(const char *text, const char *what, uint64_t least, uint64_t most) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value < least || value > most)
        bench_fail("%s is %s, but must be a whole number from %" PRIu64 " to %" PRIu64, what, text,
                   least, most);
    return value;
}

// A no-operation that QEMU's plugin knows by its displacement: what lies between the two is counted
// by address (src/kdyno/machines/plugin/count.c). Anywhere else it does nothing.
static inline void mark(bool begins) {
#if defined __x86_64__ || defined __i386__
    if (begins)
        __asm__ volatile(".byte 0x0f, 0x1f, 0x80, 0x01, 0x00, 0x64, 0x6b" ::: "memory");
    else
        __asm__ volatile(".byte 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x64, 0x6b" ::: "memory");
#endif
}

static uint64_t time_ns(struct timeval time) {
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_usec * 1000;
}

// CPU of this process and of the children it has waited for; a helper that lives on is not in it.
static struct wire_figures cpu(void) {
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return (struct wire_figures){
        .user_ns = time_ns(self.ru_utime) + time_ns(children.ru_utime),
        .sys_ns = time_ns(self.ru_stime) + time_ns(children.ru_stime),
    };
}

static uint64_t cost_ns(void) {
    if (!by_cpu)
        return clock_ns();
    struct wire_figures used = cpu();
    return used.user_ns + used.sys_ns;
}

static uint64_t timed(const struct bench *bench, uint64_t iterations) {
    if (metric)
        counters_begin(OF_REPETITION);
    if (counters | metric)
        counters_go_on();
    uint64_t start = cost_ns();
    mark(true);
    bench->body(iterations);
    mark(false);
    uint64_t took_ns = (cost_ns() - start) >> shift;
    if (counters | metric)
        counters_stop();
    counted += iterations;
    return took_ns;
}

// Of what was timed last: the figure that is reported.
static uint64_t figure_of(const struct bench *bench, uint64_t iterations, uint64_t ns) {
    if (metric) {
        uint64_t events = counters_of_repetition(metric);
        if (!events)
            bench_fail("%" PRIu64 " operations without one event of the metric: nothing to compare",
                       iterations);
        return events;
    }
    uint64_t said_ns = bench->took && !by_cpu ? bench->took(iterations) : 0;
    return said_ns ? said_ns : ns;
}

// Grows the iterations until one call takes about a sixteenth of the time, which is the warm-up
// too. The cheapest call counts: one that was interrupted would make the operation look slow.
static uint64_t calibrate(const struct bench *bench, double seconds) {
    double part_ns = seconds * 1e9 / PARTS;
    double limit_ns = part_ns < 1e8 ? 2e8 : 2 * part_ns;
    double best_ns = INFINITY; // of one operation
    uint64_t start = clock_ns(), iterations = 1;
    for (int calls = 1;; calls++) {
        double took_ns = (double)timed(bench, iterations) + 1;
        double each_ns = took_ns / (double)iterations;
        // Nothing shorter says how long an operation takes: a clock may know nothing but its ticks.
        bool enough = took_ns >= part_ns / 2;
        if (enough && each_ns < best_ns)
            best_ns = each_ns;
        if ((enough && calls >= 3) || (double)(clock_ns() - start) > limit_ns ||
            iterations > PLAN_OPERATIONS_MOST / 10) {
            double wanted = part_ns / (best_ns < INFINITY ? best_ns : each_ns);
            if (wanted > (double)PLAN_OPERATIONS_MOST)
                return PLAN_OPERATIONS_MOST;
            return wanted < 1 ? 1 : (uint64_t)wanted;
        }
        double next = 0.6 * part_ns / (enough ? best_ns : each_ns);
        double most = 10.0 * (double)iterations;
        iterations = next < 1 ? 1 : (uint64_t)(next < most ? next : most);
    }
}

void bench_untimed(void) {
    untimed = true;
}

static void report(uint64_t operations, uint64_t ns) {
    struct wire_rep rep = {operations, ns};
    if (rep.ns < rep_least_ns && !untimed && !counts && !metric)
        bench_fail("a repetition of %" PRIu64 " operations took only %" PRIu64
                   " ns, and less than 1 ms cannot be timed: ask for more operations or seconds",
                   rep.operations, rep.ns);
    if (!wire_send(WIRE_FD, WIRE_REP, &rep, sizeof rep))
        _exit(1);
}

static void measure_seconds(const struct bench *bench, double seconds, uint64_t operations) {
    uint64_t ns[REPS_MOST], said_ns[REPS_MOST], total_ns = 0, enough_ns = (uint64_t)(seconds * 1e9),
                                                done = 0;
    double part_ns = seconds * 1e9 / PARTS;
    // The last repetition may end a little before the time is full: half of one is near enough.
    // A single operation longer than its share is repeated less often rather than for many times
    // the seconds asked for: the boot is the unit of replication.
    int retries = 3;
    while (!done ||
           (done < REPS_LEAST && (operations > 1 || total_ns + total_ns / done < 2 * enough_ns)) ||
           (done < REPS_MOST && total_ns + total_ns / done / 2 < enough_ns)) {
        total_ns += ns[done] = timed(bench, operations);
        said_ns[done] = figure_of(bench, operations, ns[done]);
        // A machine that was busy all through the calibration looked slow: begin again.
        if ((double)ns[done++] < part_ns / 3 && retries-- > 0) {
            double factor = part_ns / (double)(ns[done - 1] + 1);
            operations = (uint64_t)((double)operations * (factor < 10 ? factor : 10)) + 1;
            total_ns = done = 0;
        }
    }
    for (uint64_t i = 0; i < done; i++)
        report(operations, said_ns[i]);
}

// What a part without any operation counts: reading the clock, by this kernel's path. A tick in
// one of them makes it longer, never shorter. It has no marks: plugins count parts by them.
static uint64_t empty_part(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < FIXED_PARTS; i++) {
        uint64_t start = cost_ns(), ns = (cost_ns() - start) >> shift;
        least = ns < least ? ns : least;
    }
    return least;
}

// Counted, all parts are alike, and the last one has what is left over: another number of
// operations would be another count.
static void measure_operations(const struct bench *bench, uint64_t operations) {
    struct wire_rep reps[COUNTED_PARTS];
    bool fine = counts && !by_cpu;
    uint64_t most = fine ? COUNTED_PARTS : FIXED_PARTS, equal = (operations + most - 1) / most;
    uint64_t left = operations, count = operations < most ? operations : most;
    uint64_t empty_ns = fine ? empty_part() : 0;
    if (fine)
        count = (operations + equal - 1) / equal;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t share = !fine ? left / (count - i) : left < equal ? left : equal;
        if (bench->again)
            bench->again();
        uint64_t ns = timed(bench, share);
        reps[i] =
            (struct wire_rep){share, figure_of(bench, share, ns > empty_ns ? ns - empty_ns : 1)};
        left -= share;
    }
    for (uint64_t i = 0; i < count; i++)
        report(reps[i].operations, reps[i].ns);
}

// Turn by turn, as long as there are orders. Between two turns this process sleeps.
static void take_turns(const struct bench *bench) {
    struct order order;
    wire_send(WIRE_FD, WIRE_READY, NULL, 0);
    for (ssize_t got; (got = read(ORDERS_FD, &order, sizeof order));) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got != sizeof order)
            bench_fail("an order was cut off");
        if (order.lead)
            bench->body(order.lead);
        struct wire_rep rep = {order.operations, 0};
        if (order.operations) {
            uint64_t ns = timed(bench, order.operations);
            rep.ns = figure_of(bench, order.operations, ns);
            if (!rep.ns) // by a clock that knows its ticks only
                rep.ns = 1;
        }
        if (!wire_send(WIRE_FD, WIRE_REP, &rep, sizeof rep))
            _exit(1);
    }
}

void harness_run(const struct bench *bench, int argc, char **argv, struct plan plan) {
    const char *why_not = bench->supported ? bench->supported() : NULL;
    if (why_not)
        bench_skip("%s", why_not);
    if (argc && !bench->usage)
        bench_fail("this benchmark takes no arguments, but was given %s", argv[0]);
    by_turns = plan.turns;
    counters = plan.counters;
    metric = plan.metric;
    counters_open(counters | metric);
    if (bench->setup)
        bench->setup(argc, argv);

    uint64_t start = clock_ns(), operations = 0;
    if (plan.operations)
        bench->body(plan.operations < 10 ? 1 : plan.operations / 10);
    else if (!plan.turns)
        operations = calibrate(bench, plan.seconds);
    struct wire_figures before = cpu();
    before.calibration_ns = clock_ns() - start;
    counters_begin(OF_CASE);
    counted = 0;
    if (plan.turns)
        take_turns(bench);
    else if (plan.operations)
        measure_operations(bench, plan.operations);
    else
        measure_seconds(bench, plan.seconds, operations);
    struct wire_figures after = cpu();
    counters_note(counters, counted);

    if (bench->cleanup)
        bench->cleanup();
    struct wire_figures figures = {after.user_ns - before.user_ns, after.sys_ns - before.sys_ns,
                                   before.calibration_ns};
    wire_send(WIRE_FD, WIRE_FIGURES, &figures, sizeof figures);
    wire_send(WIRE_FD, WIRE_DONE, NULL, 0);
    _exit(0);
}
