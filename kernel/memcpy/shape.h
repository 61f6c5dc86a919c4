/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory routines from parameters: macros of the GNU assembler, included after routine.h.
 *
 *	shape	FUNCTION, REGISTERS, LOOP, TAIL [, short=mask|bytes, up_to=BYTES] [, small=32]
 *		[, stores=aligned|unaligned] [, large=rep|nt, from=BYTES]
 *
 * FUNCTION	memcpy, memmove, memset, copy_page or clear_page
 * REGISTERS	general 8 bytes, sse 16, avx2 32, avx512vl 32 (those that AVX cannot name), avx512 64
 * LOOP		bytes that one turn of the loop moves
 * TAIL		what moves the rest: overlap (accesses that overlap), string (instructions), mask
 *		(one masked register); none for pages
 * short	what moves blocks of up to `up_to` bytes; else what the tail is made of
 * small	a narrower register, in bytes: with overlap the widest below the loop, with mask that
 *		of the loop
 * stores	whether the loop begins at a boundary of the target
 * large	what moves blocks of `from` bytes or more: string instructions, or stores that go
 *		round the caches
 *
 * `kdyno lab memcpy generate` writes such a line and refuses parameters that contradict each
 * other; nothing is checked here. Registers of 16 and more cannot be named by SSE or AVX
 * instructions, so no vzeroupper is needed after them. r9 and r10 hold ends, rax the result.
 */

/* Which registers: first number of a vector, and what the instructions are called. */
.macro vector do, register, at
	.ifc \do, load
	.if	.Lsse
	movdqu	\at, %\register
	.elseif	.Lavx2
	vmovdqu	\at, %\register
	.else
	vmovdqu64 \at, %\register
	.endif
	.else
	.ifc \do, stream
	.if	.Lsse
	movntdq	%\register, \at
	.else
	vmovntdq %\register, \at
	.endif
	.else
	.if	.Lsse
	movdqu	%\register, \at
	.elseif	.Lavx2
	vmovdqu	%\register, \at
	.else
	vmovdqu64 %\register, \at
	.endif
	.endif
	.endif
.endm

.macro general do, register, at
	.ifc \do, load
	movq	\at, %\register
	.else
	.ifc \do, stream
	movnti	%\register, \at
	.else
	movq	%\register, \at
	.endif
	.endif
.endm

/* `do` (load, store, stream) with `count` registers of `width` bytes, from number `first` on, at
 * start(place), start + width(place), …; of general registers those that are named; to fill, one
 * register again and again. Offsets stand in parentheses: the assembler takes them for a number
 * at once, and chooses the shortest encoding, as if the number had been written there. */
.macro vectors do, width, first, count, start, place
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	.if	\n >= .Lbase + \first && \n < .Lbase + \first + (\count)
	.if	\width == 16
	vector	\do, xmm\n, "(\start)+(\n-.Lbase-\first)*16\place"
	.elseif	\width == 32
	vector	\do, ymm\n, "(\start)+(\n-.Lbase-\first)*32\place"
	.else
	vector	\do, zmm\n, "(\start)+(\n-.Lbase-\first)*64\place"
	.endif
	.endif
	.endr
.endm

.macro named do, names:req, count, start, place
	.set	.Lindex, 0
	.irp	name, \names
	.if	.Lindex < \count
	general	\do, \name, "(\start)+.Lindex*8\place"
	.endif
	.set	.Lindex, .Lindex + 1
	.endr
.endm

.macro fill do, width, count, start, place
	.set	.Lindex, 0
	.rept	\count
	.if	\width == 8
	general	\do, rsi, "(\start)+.Lindex*8\place"
	.else
	fill_vector \do, \width, "(\start)+.Lindex*\width\place"
	.endif
	.set	.Lindex, .Lindex + 1
	.endr
.endm

.macro fill_vector do, width, at
	.irp	n, 0,16
	.if	\n == .Lbase
	.if	\width == 16
	vector	\do, xmm\n, "\at"
	.elseif	\width == 32
	vector	\do, ymm\n, "\at"
	.else
	vector	\do, zmm\n, "\at"
	.endif
	.endif
	.endr
.endm

/* `bytes` from source to target, as many registers at once as there are. */
.macro chunk bytes, source, target, store=store, width=.Lwidth
	.if	.Lfills
	fill	\store, .Lwidth, (\bytes)/.Lwidth, 0, "\target"
	.elseif	\bytes <= .Lmost * \width
	group	(\bytes)/\width, "\source", "\target", \store, \width, 0
	.else
	.set	.Lat, 0
	.rept	(\bytes)/(.Lmost * \width)
	group	.Lmost, "\source", "\target", \store, \width, .Lat
	.set	.Lat, .Lat + .Lmost * \width
	.endr
	.endif
.endm

.macro group count, source, target, store, width, from
	.if	.Lgeneral
	named	load, "rcx,r8,r11,rdx", \count, \from, "\source"
	named	\store, "rcx,r8,r11,rdx", \count, \from, "\target"
	.else
	vectors	load, \width, 0, "\count", \from, "\source"
	vectors	\store, \width, 0, "\count", \from, "\target"
	.endif
.endm

.macro leave dirty=0
	.if	\dirty
	vzeroupper
	.endif
	RET
.endm

/* memset: eight copies of the byte in rsi, then as many as a register holds. */
.macro spread
	movzbl	%sil, %esi
	movabsq	$0x0101010101010101, %rcx
	imulq	%rcx, %rsi
.endm

.macro broadcast width
	.if	.Lsse
	movq	%rsi, %xmm0
	punpcklqdq %xmm0, %xmm0
	.elseif	.Lavx2 && \width == 16
	vmovq	%rsi, %xmm0
	vpbroadcastq %xmm0, %xmm0
	.elseif	.Lavx2
	vpbroadcastq %xmm0, %ymm0
	.elseif	\width == 16
	vpbroadcastq %rsi, %xmm16
	.elseif	\width == 32
	vpbroadcastq %rsi, %ymm16
	.elseif	\width == 64
	vpbroadcastq %rsi, %zmm16
	.endif
.endm

.macro fill_register
	.if	.Lfills && !.Lgeneral
	broadcast 16
	.if	.Lwidth > 16
	broadcast .Lwidth
	.endif
	.endif
.endm

.macro rep_bytes
	.if	.Lfills
	movq	%rdi, %r8
	movl	%esi, %eax
	movq	%rdx, %rcx
	rep stosb
	movq	%r8, %rax
	leave	.Ldirty		/* the byte was spread into a wide register already */
	.else
	movq	%rdx, %rcx
	rep movsb
	leave
	.endif
.endm

/* The bytes whose bits are set in rcx: as many as the register `size` says. */
.macro masked_move width, size=%rdx
	movq	$-1, %rcx
	bzhiq	\size, %rcx, %rcx
	kmovq	%rcx, %k1
	.if	\width == 32
	.if	!.Lfills
	vmovdqu8 (%rsi), %ymm16{%k1}{z}
	.endif
	vmovdqu8 %ymm16, (%rdi){%k1}
	.else
	.if	!.Lfills
	vmovdqu8 (%rsi), %zmm16{%k1}{z}
	.endif
	vmovdqu8 %zmm16, (%rdi){%k1}
	.endif
.endm

/* All sizes that need no loop: both ends, all loads before the first store, so that memmove can
 * have the same lines. Below 16: two words, two halves, or first, middle and last byte; the
 * shortest fall through, because a branch that is not taken costs the predictor least. */
.macro under_16
	cmpl	$8, %edx
	jae	.Lfrom_8
	cmpl	$4, %edx
	jae	.Lfrom_4
	testl	%edx, %edx
	jz	.Lnothing
	movl	%edx, %r10d
	shrl	$1, %r10d
	.if	.Lfills
	movb	%sil, (%rdi)
	movb	%sil, (%rdi, %r10)
	movb	%sil, -1(%rdi, %rdx)
	.else
	movzbl	(%rsi), %ecx
	movzbl	(%rsi, %r10), %r9d
	movzbl	-1(%rsi, %rdx), %r8d
	movb	%cl, (%rdi)
	movb	%r9b, (%rdi, %r10)
	movb	%r8b, -1(%rdi, %rdx)
	.endif
.Lnothing:
	RET
	.p2align 4
.Lfrom_8:
	.if	.Lfills
	movq	%rsi, (%rdi)
	movq	%rsi, -8(%rdi, %rdx)
	.else
	movq	(%rsi), %rcx
	movq	-8(%rsi, %rdx), %r8
	movq	%rcx, (%rdi)
	movq	%r8, -8(%rdi, %rdx)
	.endif
	RET
	.p2align 4
.Lfrom_4:
	.if	.Lfills
	movl	%esi, (%rdi)
	movl	%esi, -4(%rdi, %rdx)
	.else
	movl	(%rsi), %ecx
	movl	-4(%rsi, %rdx), %r8d
	movl	%ecx, (%rdi)
	movl	%r8d, -4(%rdi, %rdx)
	.endif
	RET
.endm

/* Sizes low … high, by `count` registers of `width` bytes from each end. */
.macro step low, high
	.if	\low >= .Lshort && \high <= .Llimit
	.p2align 4
	.if	\low == 16 && .Lshort == 0
.Lfrom_\low:
	.else
.Lover_\low:
	.endif
	.if	\low < .Lwidest
	ends	\low, \low, 1, \high
	.else
	ends	\low, .Lwidest, \low/.Lwidest, \high
	.endif
	.if	\high == .Llimit
	.p2align 4
.Lover_\high:
	.endif
	.endif
.endm

.macro ends low, width, count, high
	.if	.Lfills && \width > .Lready
	broadcast \width
	.endif
	.set	.Lready, \width
	.if	\low > 16 || .Lshort
	cmpq	$\high, %rdx
	ja	.Lover_\high
	.endif
	.if	.Lfills
	fill	store, \width, \count, 0, "(%rdi)"
	fill	store, \width, \count, -\width*(\count), "(%rdi, %rdx)"
	.elseif	.Lgeneral
	named	load, "rcx,r8", 2, 0, "(%rsi)"
	named	load, "r9,r10", 2, -16, "(%rsi, %rdx)"
	named	store, "rcx,r8", 2, 0, "(%rdi)"
	named	store, "r9,r10", 2, -16, "(%rdi, %rdx)"
	.else
	vectors	load, \width, 0, \count, 0, "(%rsi)"
	vectors	load, \width, \count, \count, -\width*(\count), "(%rsi, %rdx)"
	vectors	store, \width, 0, \count, 0, "(%rdi)"
	vectors	store, \width, \count, \count, -\width*(\count), "(%rdi, %rdx)"
	.endif
	leave	".Lavx2 && \width > 16"
.endm

.macro ladder short, up_to
	movq	%rdi, %rax
	.if	.Lfills
	spread
	.if	!.Lgeneral
	broadcast 16
	.endif
	.endif
	.set	.Lready, 16
	.ifc \short, none
	cmpq	$32, %rdx
	ja	.Lover_32
	cmpl	$16, %edx
	jae	.Lfrom_16
	under_16
	.else
	.ifc \short, mask
	.if	.Lfills
	broadcast \up_to
	.endif
	.set	.Lready, \up_to
	.endif
	cmpq	$\up_to, %rdx
	ja	.Lover_\up_to
	.ifc \short, mask
	masked_move \up_to
	leave
	.else
	rep_bytes
	.endif
	.endif
	step	16, 32
	step	32, 64
	step	64, 128
	step	128, 256
	step	256, 512
	step	512, 1024
	.if	.Lfills && .Lwidth > .Lready
	broadcast .Lwidth
	.endif
.endm

/* memcpy and memset above the ladder. r9 is where the last bytes begin in the target. They are
 * loaded first and wait in registers 8 and following, so that their loads need not wait for the
 * loop; general registers are too few for that. `always`: begin at a boundary whatever `stores`
 * says. */
.macro begin always=0
	.set	.Lboundary, !.Lgeneral && (.Laligned || \always)
	.if	!.Lgeneral
	.if	!.Lfills
	.if	.Lboundary
	vectors	load, .Lwidth, 0, 1, 0, "(%rsi)"
	.endif
	vectors	load, .Lwidth, 8, .Llast_bytes/.Lwidth, -.Llast_bytes, "(%rsi, %rdx)"
	.endif
	.if	.Lboundary
	.if	.Lfills
	fill	store, .Lwidth, 1, 0, "(%rdi)"
	.else
	vectors	store, .Lwidth, 0, 1, 0, "(%rdi)"
	.endif
	.endif
	.endif
	leaq	-.Llast_bytes(%rdi, %rdx), %r9
	.if	!.Lfills
	subq	%rdi, %rsi
	.endif
	.if	.Lboundary
	addq	$.Lwidth, %rdi
	andq	$-.Lwidth, %rdi
	.endif
.endm

.macro turns name, store=store
	.p2align 6
.L\name:
	chunk	.Lloop_bytes, "(%rsi, %rdi)", "(%rdi)", \store
	addq	$.Lloop_bytes, %rdi
	.if	.Lloop_bytes > .Llast_bytes
	cmpq	%r10, %rdi
	jbe	.L\name
	.else
	cmpq	%r9, %rdi
	jb	.L\name
	.endif
.endm

.macro above large
	.ifnc \large, plain
	cmpq	$.Lfrom, %rdx
	jae	.Llarge
	.endif
	begin
	.if	.Lloop_bytes > .Llast_bytes
	/* r10: the last place where a whole turn still fits */
	leaq	.Llast_bytes-.Lloop_bytes(%r9), %r10
	cmpq	%r10, %rdi
	ja	.Lrest
	.endif
	turns	loop
	.if	.Lloop_bytes > .Llast_bytes
.Lrest:
	cmpq	%r9, %rdi
	jae	.Llast
	.p2align 6
.Lrest_loop:
	chunk	.Llast_bytes, "(%rsi, %rdi)", "(%rdi)"
	addq	$.Llast_bytes, %rdi
	cmpq	%r9, %rdi
	jb	.Lrest_loop
	.endif
.Llast:
	.if	.Lgeneral || .Lfills
	chunk	.Llast_bytes, "(%rsi, %r9)", "(%r9)"
	.else
	vectors	store, .Lwidth, 8, .Llast_bytes/.Lwidth, 0, "(%r9)"
	.endif
	leave	.Ldirty
	.ifc \large, rep
	.p2align 6
.Llarge:
	rep_bytes
	.endif
	.ifc \large, nt
	.p2align 6
.Llarge:
	begin	always=1
	.if	.Lloop_bytes > .Llast_bytes
	leaq	.Llast_bytes-.Lloop_bytes(%r9), %r10
	.endif
	turns	stream, stream
	sfence
	.if	.Lloop_bytes > .Llast_bytes
	jmp	.Lrest
	.else
	jmp	.Llast
	.endif
	.endif
.endm

/* memmove above the ladder: upwards, unless the target begins within the source. Both ends are
 * loaded before the first store. */
.macro kept do, start, place
	.if	.Lgeneral
	named	\do, "r10,r11", .Lcount, \start, "\place"
	.else
	vectors	\do, .Lwidth, 8, .Lcount, \start, "\place"
	.endif
.endm

.macro turn do, start, place
	.if	.Lgeneral
	named	\do, "rcx,rdx", .Lcount, \start, "\place"
	.else
	vectors	\do, .Lwidth, 0, .Lcount, \start, "\place"
	.endif
.endm

.macro edge do, start, place
	.if	!.Lgeneral
	vectors	\do, .Lwidth, 7, 1, \start, "\place"
	.endif
.endm

.macro either_way large
	.set	.Lcount, .Lloop_bytes / .Lwidth
	movq	%rdi, %rcx
	subq	%rsi, %rcx
	cmpq	%rdx, %rcx
	jb	.Lbackward
	.ifc \large, rep
	cmpq	$.Lfrom, %rdx
	jb	.Lupward
	/* rep movsb crawls where the blocks are close: rcx is the target minus the source */
	cmpq	$-4096, %rcx
	jb	.Llarge
.Lupward:
	.endif
	kept	load, -.Lloop_bytes, "(%rsi, %rdx)"
	edge	load, 0, "(%rsi)"
	leaq	-.Lloop_bytes(%rdi, %rdx), %r9
	subq	%rdi, %rsi
	.if	!.Lgeneral
	addq	$.Lwidth, %rdi
	andq	$-.Lwidth, %rdi
	.endif
	.p2align 6
.Lup:
	turn	load, 0, "(%rsi, %rdi)"
	turn	store, 0, "(%rdi)"
	addq	$.Lloop_bytes, %rdi
	cmpq	%r9, %rdi
	jb	.Lup
	kept	store, 0, "(%r9)"
	edge	store, 0, "(%rax)"
	leave	.Ldirty

	.p2align 6
.Lbackward:
	kept	load, 0, "(%rsi)"
	edge	load, -.Lwidth, "(%rsi, %rdx)"
	leaq	.Lloop_bytes(%rdi), %r9
	leaq	(%rdi, %rdx), %r8
	subq	%rdi, %rsi
	.if	.Lgeneral
	movq	%r8, %rdi
	.else
	leaq	-1(%r8), %rdi
	andq	$-.Lwidth, %rdi
	.endif
	.p2align 6
.Ldown:
	turn	load, -.Lloop_bytes, "(%rsi, %rdi)"
	turn	store, -.Lloop_bytes, "(%rdi)"
	subq	$.Lloop_bytes, %rdi
	cmpq	%r9, %rdi
	ja	.Ldown
	kept	store, 0, "(%rax)"
	edge	store, -.Lwidth, "(%r8)"
	leave	.Ldirty
	.ifc \large, rep
	.p2align 6
.Llarge:
	rep_bytes
	.endif
.endm

/* Whole turns through the registers, the rest by string instructions. */
.macro shift_by_loop register
	.irp	bit, 3,4,5,6,7,8,9,10,11,12
	.if	.Lloop_bytes == 1 << \bit
	shrq	$\bit, \register
	.endif
	.endr
.endm

.macro string_turns name, store=store
	.p2align 4
.L\name:
	chunk	.Lloop_bytes, "(%rsi)", "(%rdi)", \store
	.if	!.Lfills
	addq	$.Lloop_bytes, %rsi
	.endif
	addq	$.Lloop_bytes, %rdi
	decq	%r9
	jnz	.L\name
.endm

.macro string_bytes
	.if	.Lfills
	rep stosb
	.else
	rep movsb
	.endif
.endm

.macro strings large
	.if	.Lfills
	spread
	movq	%rdi, %r8
	.else
	movq	%rdi, %rax
	.endif
	.ifnc \large, plain
	cmpq	$.Lfrom, %rdx
	jae	.Llarge
	.endif
	.if	.Lfills
	movq	%rsi, %rax
	.endif
	movq	%rdx, %r9
	shift_by_loop %r9
	jz	.Lrest
	movq	%rdx, %r10
	fill_register
	string_turns loop
	.if	.Ldirty
	vzeroupper
	.endif
	movq	%r10, %rdx
.Lrest:
	movl	%edx, %ecx
	andl	$.Lloop_bytes-1, %ecx
	shrl	$3, %ecx
	.if	.Lfills
	rep stosq
	.else
	rep movsq
	.endif
	movl	%edx, %ecx
	andl	$7, %ecx
	string_bytes
	.if	.Lfills
	movq	%r8, %rax
	.endif
	RET
	.ifc \large, rep
	.p2align 6
.Llarge:
	.if	.Lfills
	movl	%esi, %eax
	.endif
	movq	%rdx, %rcx
	string_bytes
	.if	.Lfills
	movq	%r8, %rax
	.endif
	RET
	.endif
	.ifc \large, nt
	.p2align 6
.Llarge:	/* bytes up to the boundary, whole turns round the caches, then what is left */
	.if	.Lfills
	movq	%rsi, %rax
	.endif
	movl	%edi, %ecx
	negl	%ecx
	andl	$.Lwidth-1, %ecx
	subq	%rcx, %rdx
	string_bytes
	movq	%rdx, %r9
	movq	%rdx, %r10
	shift_by_loop %r9
	fill_register
	string_turns stream, stream
	sfence
	.if	.Ldirty
	vzeroupper
	.endif
	movq	%r10, %rdx
	jmp	.Lrest
	.endif
.endm

/* Up to 64 bytes by one masked register; after the loop the same for what is left. */
.macro counted name, size, again, store=store, width=.Lwidth
	.p2align 6
.L\name:
	chunk	\size, "(%rsi)", "(%rdi)", \store, \width
	.if	!.Lfills
	addq	$\size, %rsi
	.endif
	addq	$\size, %rdi
	subq	$\size, %rdx
	cmpq	$\size, %rdx
	\again	.L\name
.endm

.macro masked large
	movq	%rdi, %rax
	.if	.Lfills
	spread
	broadcast .Lwidth
	.endif
	cmpq	$.Lwidth, %rdx
	ja	.Lover_64
.Ltail:
	masked_move .Lwidth
	RET
	.p2align 6
.Lover_64:
	.ifnc \large, plain
	cmpq	$.Lfrom, %rdx
	jae	.Llarge
	.endif
	.if	.Lloop_bytes > .Lwidth
	.if	.Laligned	/* one register, then on to the target's next boundary of such */
	cmpq	$.Lloop_bytes+.Lwidest, %rdx
	jb	.Lone
	chunk	.Lwidest, "(%rsi)", "(%rdi)", width=.Lwidest
	movq	%rdi, %r8
	andl	$.Lwidest-1, %r8d
	subq	$.Lwidest, %r8
	/* r8: minus the bytes that are done with, 1 to the register's */
	subq	%r8, %rdi
	subq	%r8, %rsi
	addq	%r8, %rdx
	.else
	cmpq	$.Lloop_bytes, %rdx
	jb	.Lone
	.endif
	counted	loop, .Lloop_bytes, jae, width=.Lwidest
	cmpq	$.Lwidth, %rdx
	jbe	.Ltail
	.endif
	counted	one, .Lwidth, ja
	jmp	.Ltail
	.ifc \large, rep
	.p2align 6
.Llarge:
	rep_bytes
	.endif
	.ifc \large, nt
	.p2align 6
.Llarge:
	movl	%edi, %r8d
	negl	%r8d
	andl	$.Lwidth-1, %r8d
	masked_move .Lwidth, %r8
	addq	%r8, %rdi
	addq	%r8, %rsi
	subq	%r8, %rdx
	counted	stream, .Lloop_bytes, jae, stream
	sfence
	cmpq	$.Lwidth, %rdx
	jbe	.Ltail
	jmp	.Lone
	.endif
.endm

/* copy_page and clear_page: 4096 bytes at their multiples, nothing to test. */
.macro page large
	.ifc \large, rep
	.if	.Lfills
	xorl	%eax, %eax
	.endif
	movl	$4096, %ecx
	string_bytes
	RET
	.else
	.if	.Lfills
	xorl	%esi, %esi
	.endif
	fill_register
	movl	$4096/.Lloop_bytes, %r9d
	.p2align 6
.Lloop:
	.ifc \large, nt
	chunk	.Lloop_bytes, "(%rsi)", "(%rdi)", stream
	.else
	chunk	.Lloop_bytes, "(%rsi)", "(%rdi)"
	.endif
	.if	!.Lfills
	addq	$.Lloop_bytes, %rsi
	.endif
	addq	$.Lloop_bytes, %rdi
	decl	%r9d
	jnz	.Lloop
	.ifc \large, nt
	sfence
	.endif
	leave	.Ldirty
	.endif
.endm

.macro kind registers
	.set	.Lgeneral, 0
	.set	.Lsse, 0
	.set	.Lavx2, 0
	.set	.Lbase, 0
	.set	.Lmost, 8
	.ifc \registers, general
	.set	.Lgeneral, 1
	.set	.Lmost, 4
	.set	.Lwidth, 8
	.endif
	.ifc \registers, sse
	.set	.Lsse, 1
	.set	.Lwidth, 16
	.endif
	.ifc \registers, avx2
	.set	.Lavx2, 1
	.set	.Lwidth, 32
	.endif
	.ifc \registers, avx512vl
	.set	.Lbase, 16
	.set	.Lwidth, 32
	.endif
	.ifc \registers, avx512
	.set	.Lbase, 16
	.set	.Lwidth, 64
	.endif
.endm

.macro shape function, registers, loop, tail=none, short=none, up_to=0, small=0, stores=none, large=plain, from=0
	kind	\registers
	.set	.Ldirty, .Lavx2
	.set	.Lloop_bytes, \loop
	.set	.Lfrom, \from
	.set	.Lshort, \up_to
	.set	.Lwidest, .Lwidth
	.set	.Llast_bytes, 4 * .Lwidth
	.if	.Lloop_bytes < .Llast_bytes
	.set	.Llast_bytes, .Lloop_bytes
	.endif
	.set	.Laligned, 0
	.ifc \tail, overlap
	.set	.Laligned, 1
	.endif
	.if	\small
	.set	.Lwidest, \small
	.set	.Laligned, 1
	.endif
	.ifc \stores, aligned
	.set	.Laligned, 1
	.endif
	.ifc \stores, unaligned
	.set	.Laligned, 0
	.endif
	.set	.Llimit, 8 * .Lwidest
	.ifc \registers, avx512vl
	.set	.Llimit, 16 * .Lwidest
	.endif
	.if	\small
	.set	.Llimit, 16 * .Lwidest
	.endif
	.if	.Lgeneral
	.set	.Llimit, 32
	.endif
	.set	.Lfills, 0
	.ifc \function, memset
	.set	.Lfills, 1
	.endif
	.ifc \function, clear_page
	.set	.Lfills, 1
	.endif
	.ifc \tail, none
	page	\large
	.endif
	.ifc \tail, string
	strings	\large
	.endif
	.ifc \tail, mask
	masked	\large
	.endif
	.ifc \tail, overlap
	ladder	\short, \up_to
	.ifc \function, memmove
	either_way \large
	.else
	above	\large
	.endif
	.endif
.endm
