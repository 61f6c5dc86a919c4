/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help: rep movsb
 * requires: sse2 erms
 * source: generated: kdyno memcpy generate copy_page-general-32-rep --name rep -o copy_page-rep.S
 * arch: um
 * function: copy_page
 *
 * Change the shape or the generator (kdyno memcpy generate), not this file.
 */
#include "routine.h"

PAGE_ROUTINE_START(copy_page, rep)
	movl	$4096, %ecx
	rep movsb
	RET
PAGE_ROUTINE_END(copy_page, rep)
