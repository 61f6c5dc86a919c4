/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the rest by a masked register
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno lab memcpy generate avx512-256-mask --name mask-avx512 -o mask-avx512.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(mask_avx512)
	shape	memcpy, avx512, 256, mask
ROUTINE_END(mask_avx512)
