/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn
 * requires: avx512f avx512vl
 * source: generated: kdyno lab memcpy generate copy_page-avx512-256 --name avx512 -o copy_page-avx512.S
 * arch: um
 * function: copy_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(copy_page, avx512)
	shape	copy_page, avx512, 256
PAGE_ROUTINE_END(copy_page, avx512)
