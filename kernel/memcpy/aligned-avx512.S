/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the rest by a masked register, a loop of 32-byte registers at the target's boundaries
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno lab memcpy generate avx512-256-mask-small32 --name aligned-avx512 -o aligned-avx512.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(aligned_avx512)
	shape	memcpy, avx512, 256, mask, small=32
ROUTINE_END(aligned_avx512)
