// SPDX-License-Identifier: MIT
// Calibration, warm-up, repetition and timing of one benchmark.
#ifndef KDYNO_HARNESS_H
#define KDYNO_HARNESS_H

#include "bench.h"

// How much to do. Exactly one of the two is set.
struct plan {
    double seconds;      // fill this time
    uint64_t operations; // do exactly this many
};

#define PLAN_SECONDS_LEAST 0.01
#define PLAN_SECONDS_MOST 86400.0
#define PLAN_OPERATIONS_MOST (UINT64_C(1) << 50)

// Runs in the case's own process; says what it finds over `wire_fd` and never returns.
_Noreturn void harness_run(const struct bench *bench, int argc, char **argv, struct plan plan,
                           int wire_fd);

// Called by PID 1 once: from here on bench_in_guest() holds.
void harness_enter_guest(void);

#endif
