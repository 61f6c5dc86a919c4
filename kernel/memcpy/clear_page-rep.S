/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: rep stosb
 * requires: sse2 erms
 * source: generated: kdyno memcpy generate clear_page-general-32-rep --name rep -o clear_page-rep.S
 * arch: um
 * function: clear_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(clear_page, rep)
	xorl	%eax, %eax
	movl	$4096, %ecx
	rep stosb
	RET
PAGE_ROUTINE_END(clear_page, rep)
