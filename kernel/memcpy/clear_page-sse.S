/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn
 * requires: sse2
 * source: generated: kdyno lab memcpy generate clear_page-sse-128 --name sse -o clear_page-sse.S
 * arch: um
 * function: clear_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(clear_page, sse)
	shape	clear_page, sse, 128
PAGE_ROUTINE_END(clear_page, sse)
