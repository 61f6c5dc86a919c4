/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, past the caches
 * requires: avx2
 * source: generated: kdyno lab memcpy generate copy_page-avx2-128-nt --name avx2-nt -o copy_page-avx2-nt.S
 * arch: um
 * function: copy_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(copy_page, avx2_nt)
	shape	copy_page, avx2, 128, large=nt
PAGE_ROUTINE_END(copy_page, avx2_nt)
