/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: rep movsb
 * requires: sse2 erms
 * source: generated: kdyno lab memcpy generate copy_page-general-32-rep --name rep -o copy_page-rep.S
 * arch: um
 * function: copy_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(copy_page, rep)
	shape	copy_page, general, 32, large=rep
PAGE_ROUTINE_END(copy_page, rep)
