/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: rep stosb
 * requires: sse2 erms
 * source: generated: kdyno lab memcpy generate clear_page-general-32-rep --name rep -o clear_page-rep.S
 * arch: um
 * function: clear_page
 */
#include "routine.h"
#include "shape.h"

PAGE_ROUTINE_START(clear_page, rep)
	shape	clear_page, general, 32, large=rep
PAGE_ROUTINE_END(clear_page, rep)
