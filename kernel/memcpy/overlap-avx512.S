/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the ends by accesses that overlap, 32-byte registers below the loop
 * requires: avx512f avx512vl
 * source: generated: kdyno lab memcpy generate avx512-256-overlap-small32 --name overlap-avx512 -o overlap-avx512.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(overlap_avx512)
	shape	memcpy, avx512, 256, overlap, small=32
ROUTINE_END(overlap_avx512)
