/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn
 * requires: avx2
 * source: generated: kdyno lab memcpy generate clear_page-avx2-128 --name avx2 -o clear_page-avx2.S
 * arch: um
 * function: clear_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(clear_page, avx2)
	shape	clear_page, avx2, 128
PAGE_ROUTINE_END(clear_page, avx2)
