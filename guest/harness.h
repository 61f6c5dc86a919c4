// SPDX-License-Identifier: MIT
// Calibration, warm-up, repetition and timing of one benchmark.
#ifndef KDYNO_HARNESS_H
#define KDYNO_HARNESS_H

#include "bench.h"

// How much to do. Exactly one of the first three is set.
struct plan {
    double seconds;      // fill this time
    uint64_t operations; // do exactly this many
    bool turns;          // do what the orders say, which come over ORDERS_FD
    unsigned counters;   // shown beside the time; bits of counters.h
    unsigned metric;     // one of them, reported instead of the time; 0: the time is
};

// A turn: operations that nobody times, to have the caches back, and those that are timed.
struct order {
    uint64_t lead;
    uint64_t operations;
};

enum { WIRE_FD = 3, ORDERS_FD = 4 };

#define PLAN_SECONDS_LEAST 0.01
#define PLAN_SECONDS_MOST 86400.0
#define PLAN_OPERATIONS_MOST (UINT64_C(1) << 50)

// Runs in the case's own process; says what it finds over WIRE_FD and never returns.
_Noreturn void harness_run(const struct bench *bench, int argc, char **argv, struct plan plan);

// Called by PID 1 once: from here on bench_in_guest() holds.
void harness_enter_guest(void);

// Called by PID 1 where the clock counts instructions, each as 1 << clock_shift ns; see
// bench_waits().
void harness_count(unsigned clock_shift);

#endif
