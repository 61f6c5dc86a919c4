/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: avx2
 * source: generated: kdyno lab memcpy generate avx2-128-overlap --name overlap-avx2 -o overlap-avx2.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(overlap_avx2)
	shape	memcpy, avx2, 128, overlap
ROUTINE_END(overlap_avx2)
