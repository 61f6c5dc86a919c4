/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the kernel's header when the kernel's own memcpy is assembled for a program from
 * a tree that is at hand. Only the loop that a kernel falls back to gets a name: the others would
 * take the C library's place.
 */
#define SYM_TYPED_FUNC_START(name) kernel_##name :
#define SYM_FUNC_START(name) kernel_##name :
#define SYM_FUNC_START_WEAK(name) kernel_##name :
/* clang-format off */
#define SYM_FUNC_START_LOCAL(name) .p2align 4 ; .globl kernel_##name ; name : kernel_##name :
/* clang-format on */
#define SYM_FUNC_END(name)
#define SYM_FUNC_ALIAS(name, target)
#define SYM_FUNC_ALIAS_WEAK(name, target)
#define SYM_FUNC_ALIAS_MEMFUNC(name, target)
#define SYM_PIC_ALIAS(name)
#define EXPORT_SYMBOL(name)
#define RET ret

	.section .note.GNU-stack, "", @progbits
	.text
