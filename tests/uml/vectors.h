// SPDX-License-Identifier: MIT
// The widest vector registers of this CPU: all filled before a system call, all read after it.
#pragma once
#include <stdint.h>

enum { MOST_BYTES = 32 * 64 };

typedef unsigned char pattern[MOST_BYTES];

// Of this CPU: how many vector registers of how many bytes are watched.
static int registers = 16, width = 16;

static void fill(pattern bytes, uint32_t seed) {
    uint32_t value = seed * 2654435761u + 1;
    for (int i = 0; i < MOST_BYTES; i++) {
        value = value * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(value >> 24);
    }
}

#define SIXTEEN "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define THIRTY_TWO SIXTEEN ",16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"

// A function that fills all vector registers, makes the system call, and says what they hold
// after it. (Register 16 and above are the compiler's only
// with -mavx512f, which this is not compiled with.)
#define CALL(NAME, MOVE, REGISTER, BYTES, LIST, AFTER)                                             \
    static long NAME(const pattern before, pattern after, long number, long a, long b, long c) {   \
        long result = number;                                                                      \
        __asm__ volatile(".irp i," LIST "\n\t" MOVE " \\i*" BYTES "(%[in]), %%" REGISTER           \
                         "\\i\n\t.endr\n\t"                                                        \
                         "xorl %%r10d, %%r10d\n\tsyscall\n\t"                                      \
                         ".irp i," LIST "\n\t" MOVE " %%" REGISTER "\\i, \\i*" BYTES               \
                         "(%[out])\n\t.endr\n\t" AFTER                                             \
                         : "+a"(result)                                                            \
                         : "D"(a), "S"(b), "d"(c), [in] "r"(before), [out] "r"(after)              \
                         : "rcx", "r10", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",  \
                           "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",      \
                           "xmm13", "xmm14", "xmm15");                                             \
        return result;                                                                             \
    }
CALL(call_xmm, "movdqu", "xmm", "16", SIXTEEN, "")
CALL(call_ymm, "vmovdqu", "ymm", "32", SIXTEEN, "vzeroupper")
CALL(call_zmm, "vmovdqu64", "zmm", "64", THIRTY_TWO, "vzeroupper")

static long (*call_with)(const pattern, pattern, long, long, long, long) = call_xmm;

static void widest(void) {
    if (__builtin_cpu_supports("avx512f")) {
        call_with = call_zmm;
        registers = 32;
        width = 64;
    } else if (__builtin_cpu_supports("avx2")) {
        call_with = call_ymm;
        width = 32;
    }
}

// The xmm part of register i, which is where signal frames and debuggers have it.
static unsigned char *low(pattern bytes, int i) {
    return bytes + i * width;
}
