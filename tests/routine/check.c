// SPDX-License-Identifier: MIT
// Checks one memory routine: check thin|full. Link it with the routine and
// -Wl,--defsym=memcpy_under_test=memcpy_NAME. Prints a line per kind of
// violation, "KIND: where it was seen first"; exit status 1 when there is one.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define LARGEST 70000u
#define AREA (20 * PAGE) // accessible bytes of an area, LARGEST and an offset
#define AROUND 128u      // bytes behind the target that must stay as they were
#define UNTOUCHED 0xa5   // never occurs in the source

enum kind { BYTES, CANARY, SOURCE, GUARD, RETURN, SAVED, DIRECTION, UPPER, SAME, KINDS };

static const char *const name[KINDS] = {"bytes", "canary",    "source", "guard", "return",
                                        "saved", "direction", "upper",  "same"};

struct watched {
    uint64_t saved[6]; // rbx rbp r12 r13 r14 r15 after the call
    uint64_t rflags;
};

void *call_watched(void *to, const void *from, size_t size, struct watched *after);

// Fills the registers that a callee must keep, calls, and stores them.
__asm__(
    ".text\n"
    "call_watched:\n"
    "    push %rbx\n    push %rbp\n    push %r12\n"
    "    push %r13\n    push %r14\n    push %r15\n"
    "    push %rcx\n"
    "    mov $0x5b00, %ebx\n    mov $0x5b01, %ebp\n    mov $0x5b02, %r12d\n"
    "    mov $0x5b03, %r13d\n    mov $0x5b04, %r14d\n    mov $0x5b05, %r15d\n"
    "    call memcpy_under_test\n"
    "    pop %rcx\n"
    "    mov %rbx, 0(%rcx)\n    mov %rbp, 8(%rcx)\n    mov %r12, 16(%rcx)\n"
    "    mov %r13, 24(%rcx)\n    mov %r14, 32(%rcx)\n    mov %r15, 40(%rcx)\n"
    "    pushfq\n    pop %rdx\n    mov %rdx, 48(%rcx)\n"
    "    cld\n"
    "    pop %r15\n    pop %r14\n    pop %r13\n"
    "    pop %r12\n    pop %rbp\n    pop %rbx\n"
    "    ret\n");

static unsigned char *source, *target, *pristine, *untouched;
static int seen[KINDS];
static int upper_readable;
static long cases;
static sigjmp_buf back;

__attribute__((format(printf, 2, 3))) static void violated(enum kind kind, const char *format,
                                                           ...) {
    if (seen[kind]++)
        return;
    va_list rest;
    va_start(rest, format);
    printf("%s: ", name[kind]);
    vprintf(format, rest);
    putchar('\n');
    va_end(rest);
}

// Bits of the register state that is not in its initial state: 4 is the upper
// half of ymm0-15, 64 the upper half of zmm0-15.
static unsigned in_use(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low & (4 | 64);
}

__attribute__((target("avx"))) static void clean_upper(void) {
    __asm__ volatile("vzeroupper" ::: "memory");
}

__attribute__((target("avx"))) static int upper_works(void) {
    unsigned eax = 0xd, ebx, ecx = 1, edx;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx"))
        return 0;
    __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
    if (!(eax & 4)) // no xgetbv with ecx = 1
        return 0;
    clean_upper();
    unsigned clean = in_use();
    __asm__ volatile(
        "vpcmpeqd %%xmm0, %%xmm0, %%xmm0\n\t"
        "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0" ::
            : "xmm0");
    unsigned dirty = in_use();
    clean_upper();
    return clean == 0 && (dirty & 4);
}

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

// An area whose neighbouring pages may not be touched.
static unsigned char *guarded(void) {
    unsigned char *all = mmap(NULL, AREA + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + PAGE, AREA, PROT_READ | PROT_WRITE)) {
        perror("check: no memory for an area with guard pages");
        exit(2);
    }
    return all + PAGE;
}

static void call(size_t from, size_t to, size_t size) {
    struct watched after = {0};
    if (upper_readable)
        clean_upper();
    if (sigsetjmp(back, 0)) {
        __asm__ volatile("cld");
        violated(GUARD, "size %zu, source +%zu, target +%zu: touches a byte outside", size, from,
                 to);
        return;
    }
    void *result = call_watched(target + to, source + from, size, &after);
    unsigned upper = upper_readable ? in_use() : 0;
    if (result != target + to)
        violated(RETURN, "size %zu: %td bytes from the target", size,
                 (unsigned char *)result - (target + to));
    for (unsigned i = 0; i < 6; i++)
        if (after.saved[i] != 0x5b00 + i)
            violated(SAVED, "size %zu: register %u of rbx rbp r12-r15", size, i);
    if (after.rflags & 0x400)
        violated(DIRECTION, "size %zu: direction flag is set", size);
    if (upper)
        violated(UPPER, "size %zu: upper halves in use, state bits %#x", size, upper);
}

// One copy, and everything around it compared.
static void copy(size_t from, size_t to, size_t size) {
    size_t low = to < AROUND ? 0 : to - AROUND;
    size_t end = to + size + AROUND < AREA ? to + size + AROUND : AREA;
    memset(target + low, UNTOUCHED, end - low);
    call(from, to, size);
    cases++;
    if (memcmp(target + to, pristine + from, size))
        violated(BYTES, "size %zu, source +%zu, target +%zu", size, from, to);
    if (memcmp(target + low, untouched, to - low) ||
        memcmp(target + to + size, untouched, end - to - size))
        violated(CANARY, "size %zu, source +%zu, target +%zu", size, from, to);
    size_t first = from < AROUND ? 0 : from - AROUND;
    size_t last = from + size + AROUND < AREA ? from + size + AROUND : AREA;
    if (memcmp(source + first, pristine + first, last - first)) {
        violated(SOURCE, "size %zu, source +%zu, target +%zu", size, from, to);
        memcpy(source, pristine, AREA);
    }
}

// memcpy(p, p, n), which compilers emit for a structure assigned to itself.
static void onto_itself(size_t at, size_t size) {
    unsigned char *kept = target;
    target = source;
    call(at, at, size);
    target = kept;
    cases++;
    if (memcmp(source, pristine, AREA)) {
        violated(SAME, "size %zu at +%zu", size, at);
        memcpy(source, pristine, AREA);
    }
}

static void at_the_edges(size_t size) {
    size_t last = AREA - size;
    copy(0, 0, size);
    copy(0, last, size);
    copy(last, 0, size);
    copy(last, last, size);
}

static uint32_t next(void) {
    static uint64_t state = 0x2545f4914f6cdd1d;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 20);
}

int main(int argc, char **argv) {
    if (argc != 2 || (strcmp(argv[1], "thin") && strcmp(argv[1], "full"))) {
        fprintf(stderr, "usage: check thin|full\n");
        return 2;
    }
    int full = !strcmp(argv[1], "full");
    source = guarded();
    target = guarded();
    pristine = guarded();
    untouched = guarded();
    for (size_t i = 0; i < AREA; i++) {
        unsigned char byte = (unsigned char)next();
        source[i] = pristine[i] = byte == UNTOUCHED ? 0 : byte;
    }
    memset(untouched, UNTOUCHED, AREA);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    upper_readable = upper_works();

    size_t step_from = full ? 1 : 7, step_to = full ? 1 : 5;
    for (size_t size = 0; size <= 1024; size += full || size < 300 ? 1 : 11)
        for (size_t from = 0; from < 64; from += step_from)
            for (size_t to = 0; to < 64; to += step_to)
                copy(PAGE + from, PAGE + to, size);
    for (size_t size = 0; size <= (full ? 9000u : 1100u); size++)
        at_the_edges(size);
    for (size_t size = 0; size <= 1100; size += full || size < 70 ? 1 : 13)
        onto_itself(PAGE + size % 64, size);
    for (int i = 0; i < (full ? 40000 : 600); i++) {
        size_t size = next() % (LARGEST + 1);
        copy(next() % PAGE, next() % PAGE, size);
        if (i % 8 == 0)
            at_the_edges(size);
        if (i % 64 == 0)
            onto_itself(next() % PAGE, size);
    }
    int violations = 0;
    for (int i = 0; i < KINDS; i++)
        violations += seen[i] != 0;
    printf("%ld cases, %d kinds of violation%s\n", cases, violations,
           upper_readable ? "" : ", upper halves not readable");
    return violations != 0;
}
