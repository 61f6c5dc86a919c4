/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 64 bytes a turn, the ends by accesses that overlap
 * requires: sse2
 * source: generated: kdyno lab memcpy generate memmove-sse-64-overlap --name sse -o memmove-sse.S
 * arch: um
 * function: memmove
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START_OF(memmove, sse)
	shape	memmove, sse, 64, overlap
ROUTINE_END_OF(memmove, sse)
