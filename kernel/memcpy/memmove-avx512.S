/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the ends by accesses that overlap, 32-byte registers below the loop
 * requires: avx512f avx512vl
 * source: generated: kdyno lab memcpy generate memmove-avx512-256-overlap-small32 --name avx512 -o memmove-avx512.S
 * arch: um
 * function: memmove
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START_OF(memmove, avx512)
	shape	memmove, avx512, 256, overlap, small=32
ROUTINE_END_OF(memmove, avx512)
