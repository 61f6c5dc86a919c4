/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn, the ends by accesses that overlap
 * requires: sse2
 * source: generated: kdyno lab memcpy generate sse-128-overlap --name overlap-sse -o overlap-sse.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(overlap_sse)
	shape	memcpy, sse, 128, overlap
ROUTINE_END(overlap_sse)
