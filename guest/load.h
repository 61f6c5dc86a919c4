// SPDX-License-Identifier: MIT
// What a load meter shows while a command runs: runnable tasks and CPU use, ten times a second.
#ifndef KDYNO_LOAD_H
#define KDYNO_LOAD_H

#include <stdint.h>

enum { LOAD_LOOKS = 1024 };

struct load {
    uint64_t tasks; // asked for; 0: nothing is recorded
    uint64_t start_ns, next_ns, every_ns;
    uint64_t busy, all;                    // ticks of the machine at the last look
    uint64_t span_ns, runnable_ns, low_ns; // of all looks, each as long as until the next one
    struct {
        uint32_t ms, runnable, busy_percent;
    } looks[LOAD_LOOKS];
    int count;
};

void load_start(struct load *load, uint64_t tasks);
// For poll(): milliseconds until the next look, -1 when there is none.
int load_wait_ms(const struct load *load);
// Looks when it is time to.
void load_look(struct load *load);
// The notes "load", "mean_runnable", "low_parallelism_percent" and "load_tasks".
void load_note(const struct load *load);

#endif
