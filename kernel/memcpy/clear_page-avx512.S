/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn
 * requires: avx512f avx512vl
 * source: generated: kdyno lab memcpy generate clear_page-avx512-256 --name avx512 -o clear_page-avx512.S
 * arch: um
 * function: clear_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(clear_page, avx512)
	shape	clear_page, avx512, 256
PAGE_ROUTINE_END(clear_page, avx512)
