/* SPDX-License-Identifier: GPL-2.0-only */
#define SYM_FUNC_START(name) .globl name ; .type name, @function ; name:
#define SYM_FUNC_END(name) .size name, . - name
#define SYM_FUNC_ALIAS_WEAK(alias, name) .weak alias ; .set alias, name
#define RET ret
