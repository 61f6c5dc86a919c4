/* SPDX-License-Identifier: MIT */
/* Nothing of the kernel's header of this name is needed in a program; see linux/linkage.h. */
