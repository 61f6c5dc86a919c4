/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: avx2
 * source: generated: kdyno lab memcpy generate memmove-avx2-128-overlap --name avx2 -o memmove-avx2.S
 * arch: um
 * function: memmove
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START_OF(memmove, avx2)
	shape	memmove, avx2, 128, overlap
ROUTINE_END_OF(memmove, avx2)
