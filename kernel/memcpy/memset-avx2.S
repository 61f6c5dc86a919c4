/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: avx2
 * source: generated: kdyno lab memcpy generate memset-avx2-128-overlap --name avx2 -o memset-avx2.S
 * arch: um
 * function: memset
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START_OF(memset, avx2)
	shape	memset, avx2, 128, overlap
ROUTINE_END_OF(memset, avx2)
