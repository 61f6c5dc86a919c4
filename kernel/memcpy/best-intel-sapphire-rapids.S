/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: 64-byte AVX-512 registers, 256 bytes a turn, the ends by accesses that overlap, up to 64 bytes by a masked register, rep movsb from 16384 bytes
 * requires: avx512f avx512vl avx512bw bmi2 erms
 * source: generated: kdyno lab memcpy generate avx512-256-overlap-mask64-rep-16384 --name best-intel-sapphire-rapids -o best-intel-sapphire-rapids.S
 * arch: um
 */
#include "routine.h"
#include "shape.h"

ROUTINE_START(best_intel_sapphire_rapids)
	shape	memcpy, avx512, 256, overlap, short=mask, up_to=64, large=rep, from=16384
ROUTINE_END(best_intel_sapphire_rapids)
