// SPDX-License-Identifier: MIT
// The few AVX-512 instructions that routines of memory use, on a CPU that has none of them: what
// it refuses to do (SIGILL) is done here. Linked with check.c and -Wl,--wrap=sigaction. Encodings:
// Intel's manual, volume 2, sections 2.7 (EVEX) and 2.3 (VEX).
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

int __real_sigaction(int number, const struct sigaction *action, struct sigaction *before);
int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *before);

static unsigned char vectors[32][64];
static uint64_t masks[8] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                            UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
static struct sigaction other;

static greg_t *general(ucontext_t *context, unsigned number) {
    static const int place[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    return &context->uc_mcontext.gregs[place[number]];
}

// The address that ModRM at *code means; *code is then behind it. NULL: an address that no
// routine has, by the instruction pointer. scale: of a displacement of one byte.
static unsigned char *address(ucontext_t *context, const unsigned char **code, unsigned x,
                              unsigned b, int scale) {
    unsigned modrm = *(*code)++, mod = modrm >> 6, rm = modrm & 7;
    uint64_t at = 0;
    int32_t far = 0;
    if (rm == 4) {
        unsigned sib = *(*code)++, index = (sib >> 3 & 7) | x << 3, base = sib & 7;
        if (index != 4)
            at += (uint64_t)*general(context, index) << (sib >> 6);
        if (base != 5 || mod != 0)
            at += (uint64_t)*general(context, base | b << 3);
        else
            mod = 2;
    } else if (rm == 5 && mod == 0) {
        return NULL;
    } else {
        at += (uint64_t)*general(context, rm | b << 3);
    }
    if (mod == 1) {
        far = (int8_t) * (*code)++ * scale;
    } else if (mod == 2) {
        memcpy(&far, *code, 4);
        *code += 4;
    }
    return (unsigned char *)(at + (uint64_t)(int64_t)far);
}

// Elements of `size` bytes of `length` bytes, those that the mask names. In a register the others
// become zero or stay; in memory they are not touched.
static void move(unsigned char *to, const unsigned char *from, unsigned length, unsigned size,
                 uint64_t mask, int zero) {
    for (unsigned i = 0; i < length / size; i++)
        if (mask >> i & 1)
            memcpy(to + i * size, from + i * size, size);
        else if (zero)
            memset(to + i * size, 0, size);
}

// Where the instruction ends that was done; NULL: it is none of these.
static const unsigned char *done(ucontext_t *context, const unsigned char *code) {
    if (code[0] == 0xc4 && (code[1] & 0x1f) == 1 && code[2] == 0xfb && code[3] == 0x92 &&
        code[4] >> 6 == 3) { // kmovq %r64, %k
        unsigned b = ~code[1] >> 5 & 1;
        masks[code[4] >> 3 & 7] = (uint64_t)*general(context, (code[4] & 7) | b << 3);
        return code + 5;
    }
    if (code[0] != 0x62)
        return NULL;
    unsigned r = ~code[1] >> 7 & 1, x = ~code[1] >> 6 & 1, b = ~code[1] >> 5 & 1;
    unsigned high = ~code[1] >> 4 & 1, map = code[1] & 7, wide = code[2] >> 7;
    unsigned prefix = code[2] & 3, zero = code[3] >> 7, length = 16u << (code[3] >> 5 & 3);
    unsigned named = code[3] & 7, operation = code[4];
    const unsigned char *rest = code + 5;
    unsigned number = (*rest >> 3 & 7) | r << 3 | high << 4, from = (*rest & 7) | b << 3;
    unsigned char *vector = vectors[number];
    if (map == 2 && operation == 0x7c && prefix == 1 && wide && *rest >> 6 == 3) {
        for (unsigned i = 0; i < length; i += 8) // vpbroadcastq %r64
            memcpy(vector + i, general(context, from), 8);
        memset(vector + length, 0, 64 - length);
        return rest + 1;
    }
    int loads = operation == 0x6f, stores = operation == 0x7f;
    int streams = operation == 0xe7 && prefix == 1 && !wide;
    if (map != 1 || !(loads || stores || streams) || length > 64)
        return NULL;
    unsigned size = prefix == 3 ? (wide ? 2 : 1) : (wide ? 8 : 4);
    uint64_t mask = named ? masks[named] : UINT64_MAX;
    unsigned char *memory;
    if (*rest >> 6 == 3) {
        memory = vectors[from | x << 4];
        rest++;
    } else {
        memory = address(context, &rest, x, b, (int)length);
        if (!memory)
            return NULL;
    }
    if (loads) {
        move(vector, memory, length, size, mask, (int)zero);
        memset(vector + length, 0, 64 - length);
    } else {
        move(memory, vector, length, size, mask, 0);
    }
    return rest;
}

static void on_unknown(int number, siginfo_t *info, void *context) {
    ucontext_t *here = context;
    greg_t *at = &here->uc_mcontext.gregs[REG_RIP];
    const unsigned char *next, *end = NULL;
    (void)info;
    // A signal is dear, and what follows is often another of them.
    for (next = (const unsigned char *)*at; (next = done(here, next)); end = next)
        *at = (greg_t)next;
    if (!end)
        other.sa_handler(number);
}

int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    if (number != SIGILL)
        return __real_sigaction(number, action, before);
    other = *action;
    struct sigaction own = *action;
    own.sa_sigaction = on_unknown;
    own.sa_flags |= SA_SIGINFO;
    return __real_sigaction(number, &own, before);
}
