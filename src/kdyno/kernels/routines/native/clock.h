/* SPDX-License-Identifier: MIT */
/* Time by the time-stamp counter, and cycles without hardware counters. */
#ifndef KDYNO_NATIVE_CLOCK_H
#define KDYNO_NATIVE_CLOCK_H

#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

static inline uint64_t ticks(void)
{
	uint64_t now;

	_mm_lfence();
	now = __rdtsc();
	_mm_lfence();
	return now;
}

/* Ticks of the time-stamp counter per ns, against the system's clock over a few ms. */
double tick_ghz(void);

/*
 * The core's clock in GHz now: additions that wait for each other take one cycle each. Two
 * registers are added, because newer cores do away with additions of a constant.
 */
double core_ghz(double tsc_ghz);

#endif
