/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: sse2
 * source: generated: kdyno lab memcpy generate memset-sse-128-overlap --name sse -o memset-sse.S
 * arch: um
 * function: memset
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START_OF(memset, sse)
	shape	memset, sse, 128, overlap
ROUTINE_END_OF(memset, sse)
