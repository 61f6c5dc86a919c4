/* SPDX-License-Identifier: MIT */
#include "clock.h"

static double now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

double tick_ghz(void)
{
	double begin_ns = now_ns(), end_ns;
	uint64_t begin = ticks();

	do {
		end_ns = now_ns();
	} while (end_ns - begin_ns < 4e6);
	return (double)(ticks() - begin) / (end_ns - begin_ns);
}

#define ADD_4 "add %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\tadd %1, %0\n\t"
#define ADD_16 ADD_4 ADD_4 ADD_4 ADD_4
#define ADD_64 ADD_16 ADD_16 ADD_16 ADD_16

double core_ghz(double tsc_ghz)
{
	enum { TURNS = 64, TRIES = 5 };
	uint64_t sum = 1, step = 3, best = UINT64_MAX;

	/* The fastest of a few tries: what interrupts it can only make it longer. */
	for (int attempt = 0; attempt < TRIES; attempt++) {
		uint64_t begin = ticks(), taken;

		for (int turn = 0; turn < TURNS; turn++)
			__asm__ volatile(ADD_64 : "+r"(sum) : "r"(step));
		taken = ticks() - begin;
		if (taken < best)
			best = taken;
	}
	return 64.0 * TURNS / (double)best * tsc_ghz;
}
