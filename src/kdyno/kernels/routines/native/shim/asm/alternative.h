/* SPDX-License-Identifier: MIT */
/* User Mode Linux never replaces an instruction by its alternatives, so the first one stays. */
	.macro ALTERNATIVE first, second, feature
	\first
	.endm
	.macro ALTERNATIVE_2 first, second, feature, third, other
	\first
	.endm
