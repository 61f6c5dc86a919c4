/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn
 * requires: avx2
 * source: generated: kdyno lab memcpy generate copy_page-avx2-128 --name avx2 -o copy_page-avx2.S
 * arch: um
 * function: copy_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(copy_page, avx2)
	shape	copy_page, avx2, 128
PAGE_ROUTINE_END(copy_page, avx2)
