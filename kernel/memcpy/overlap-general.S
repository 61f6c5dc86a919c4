/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 8-byte general registers, 32 bytes a turn, the ends by accesses that overlap
 * requires: sse2
 * source: generated: kdyno lab memcpy generate general-32-overlap --name overlap-general -o overlap-general.S
 * arch: um x86_64
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(overlap_general)
	shape	memcpy, general, 32, overlap
ROUTINE_END(overlap_general)
