/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 256 bytes a turn, the rest by string instructions
 * requires: sse2
 * source: generated: kdyno lab memcpy generate sse-256-string --name saito-oikawa-256 -o saito-oikawa-256.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(saito_oikawa_256)
	shape	memcpy, sse, 256, string
ROUTINE_END(saito_oikawa_256)
