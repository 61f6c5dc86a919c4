// SPDX-License-Identifier: MIT
// Counters of the CPU and of the kernel beside a case's time, by perf_event_open(2): of the case's
// process and all that it starts, user and kernel apart.
#ifndef KDYNO_COUNTERS_H
#define KDYNO_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

enum { COUNTERS_MOST = 4, COUNTERS_WHY = 256 };

// The bit of a counter's name in a set of counters; 0: there is none of this name.
unsigned counters_bit(const char *name);
// Whether this kernel and this CPU have them all, for this process; else `why` holds the reason.
bool counters_possible(unsigned set, char why[COUNTERS_WHY]);
// Once in a case's process, before it starts others. They stand still until counters_go_on().
void counters_open(unsigned set);
void counters_go_on(void);
void counters_stop(void);
// Where what the next two functions count begins.
enum counters_span { OF_CASE, OF_REPETITION, COUNTERS_SPANS };
void counters_begin(enum counters_span span);
// Of one counter, user and kernel together.
uint64_t counters_of_repetition(unsigned bit);
// A note of each counter of the set and each side: events per operation of the case.
void counters_note(unsigned set, uint64_t operations);

#endif
