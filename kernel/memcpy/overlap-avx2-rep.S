/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 32-byte AVX registers, 128 bytes a turn, the ends by accesses that overlap, rep movsb from 16384 bytes
 * requires: avx2 erms
 * source: generated: kdyno lab memcpy generate avx2-128-overlap-rep-16384 --name overlap-avx2-rep -o overlap-avx2-rep.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(overlap_avx2_rep)
	shape	memcpy, avx2, 128, overlap, large=rep, from=16384
ROUTINE_END(overlap_avx2_rep)
