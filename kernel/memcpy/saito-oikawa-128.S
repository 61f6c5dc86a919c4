/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 128 bytes a turn, the rest by string instructions
 * requires: sse2
 * source: generated: kdyno lab memcpy generate sse-128-string --name saito-oikawa-128 -o saito-oikawa-128.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(saito_oikawa_128)
	shape	memcpy, sse, 128, string
ROUTINE_END(saito_oikawa_128)
