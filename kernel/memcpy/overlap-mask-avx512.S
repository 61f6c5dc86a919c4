/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the ends by accesses that overlap, up to 64 bytes by a masked register
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno lab memcpy generate avx512-256-overlap-mask64 --name overlap-mask-avx512 -o overlap-mask-avx512.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(overlap_mask_avx512)
	shape	memcpy, avx512, 256, overlap, short=mask, up_to=64
ROUTINE_END(overlap_mask_avx512)
