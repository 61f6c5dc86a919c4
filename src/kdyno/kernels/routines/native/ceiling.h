/* SPDX-License-Identifier: MIT */
/* The fastest that this machine was seen to store and to copy: what routines are held against. */
#ifndef KDYNO_NATIVE_CEILING_H
#define KDYNO_NATIVE_CEILING_H

#include <stddef.h>

/* Bytes per ns of a loop of nothing but aligned stores of ``width`` bytes (16, 32, 64). */
double store_rate(unsigned char *target, size_t bytes, int width, double tsc_ghz);

/*
 * Bytes per ns of one long copy of ``bytes``, the best of: a loop of ``width``-byte registers, the
 * same with stores that go round the caches, and rep movsb.
 */
double copy_rate(unsigned char *target, const unsigned char *source, size_t bytes, int width,
		 double tsc_ghz);

#endif
