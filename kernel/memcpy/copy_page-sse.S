/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn
 * requires: sse2
 * source: generated: kdyno lab memcpy generate copy_page-sse-128 --name sse -o copy_page-sse.S
 * arch: um
 * function: copy_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(copy_page, sse)
	shape	copy_page, sse, 128
PAGE_ROUTINE_END(copy_page, sse)
