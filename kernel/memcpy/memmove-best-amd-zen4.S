/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX-512 registers, 128 bytes a turn, the ends by accesses that overlap, up to 64 bytes by a masked register
 * requires: avx512f avx512vl avx512bw bmi2
 * source: generated: kdyno lab memcpy generate memmove-avx512vl-128-overlap-mask64 --name best-amd-zen4 -o memmove-best-amd-zen4.S
 * arch: um
 * function: memmove
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START_OF(memmove, best_amd_zen4)
	shape	memmove, avx512vl, 128, overlap, short=mask, up_to=64
ROUTINE_END_OF(memmove, best_amd_zen4)
