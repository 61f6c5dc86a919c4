/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 16-byte SSE registers, 1024 bytes a turn, the rest by string instructions
 * requires: sse2
 * source: generated: kdyno lab memcpy generate sse-1024-string --name saito-oikawa-1024 -o saito-oikawa-1024.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(saito_oikawa_1024)
	shape	memcpy, sse, 1024, string
ROUTINE_END(saito_oikawa_1024)
