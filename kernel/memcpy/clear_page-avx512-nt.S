/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, past the caches
 * requires: avx512f avx512vl
 * source: generated: kdyno lab memcpy generate clear_page-avx512-256-nt --name avx512-nt -o clear_page-avx512-nt.S
 * arch: um
 * function: clear_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(clear_page, avx512_nt)
	shape	clear_page, avx512, 256, large=nt
PAGE_ROUTINE_END(clear_page, avx512_nt)
