// SPDX-License-Identifier: MIT
// Checks one memory routine: check memcpy|memmove|memset|copy_page|clear_page thin|full. Link it
// with the routine and -Wl,--defsym=routine_under_test=FUNCTION_NAME. Prints a line per kind of
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
#include <sys/time.h>

#define PAGE 4096u
#define LARGEST 70000u
#define FIRST_POWER (128u << 10) // of the large blocks, see large()
#define LAST_POWER (4096u << 10)
#define LARGE_AREA (LAST_POWER + 2 * PAGE)
#define AROUND 128u    // bytes around the target that must stay as they were
#define UNTOUCHED 0xa5 // never occurs in the source

enum kind {
    BYTES,
    CANARY,
    SOURCE,
    GUARD,
    RETURN,
    SAVED,
    DIRECTION,
    UPPER,
    SAME,
    OVERLAP,
    HANG,
    ILLEGAL,
    KINDS
};

static const char *const name[KINDS] = {"bytes",  "canary",  "source",    "guard",
                                        "return", "saved",   "direction", "upper",
                                        "same",   "overlap", "hang",      "illegal"};

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
    "    call routine_under_test\n"
    "    pop %rcx\n"
    "    mov %rbx, 0(%rcx)\n    mov %rbp, 8(%rcx)\n    mov %r12, 16(%rcx)\n"
    "    mov %r13, 24(%rcx)\n    mov %r14, 32(%rcx)\n    mov %r15, 40(%rcx)\n"
    "    pushfq\n    pop %rdx\n    mov %rdx, 48(%rcx)\n"
    "    cld\n"
    "    pop %r15\n    pop %r14\n    pop %r13\n"
    "    pop %r12\n    pop %rbp\n    pop %rbx\n"
    "    ret\n");

static unsigned char *source, *target, *pristine, *untouched;
static size_t area; // accessible bytes of each
static int seen[KINDS];
static int upper_readable, returns = 1;
static volatile long cases;
static sigjmp_buf back;
static volatile sig_atomic_t calling;
static volatile int caught;

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
    if (!calling)
        _exit(3); // the checker itself: memory that the routine should not know is damaged
    caught = signal;
    siglongjmp(back, 1);
}

// Two ticks of a quarter second of CPU time within one call: it will not come back.
static void on_tick(int signal) {
    static long before = -1;
    if (calling && cases == before) {
        caught = signal;
        siglongjmp(back, 1);
    }
    before = cases;
}

static int finish(void) {
    int violations = 0;
    for (int i = 0; i < KINDS; i++)
        violations += seen[i] != 0;
    printf("%ld cases, %d kinds of violation%s\n", cases, violations,
           upper_readable ? "" : ", upper halves not readable");
    fflush(stdout);
    return violations != 0;
}

// An area whose neighbouring pages may not be touched.
static unsigned char *guarded(void) {
    unsigned char *all = mmap(NULL, area + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + PAGE, area, PROT_READ | PROT_WRITE)) {
        perror("check: no memory for an area with guard pages");
        exit(2);
    }
    return all + PAGE;
}

// second: the source's address, or the byte of memset, whose upper bits mean nothing.
static void call(unsigned char *to, const void *second, size_t size, const char *where) {
    struct watched after = {0};
    cases++;
    if (upper_readable)
        clean_upper();
    if (sigsetjmp(back, 0)) {
        calling = 0;
        __asm__ volatile("cld");
        if (caught == SIGVTALRM) {
            violated(HANG, "%s: does not come back", where);
            _exit(finish());
        }
        violated(caught == SIGILL ? ILLEGAL : GUARD, "%s: %s", where,
                 caught == SIGILL ? "an instruction that this CPU does not have"
                                  : "touches a byte outside");
        return;
    }
    calling = 1;
    void *result = call_watched(to, second, size, &after);
    calling = 0;
    unsigned upper = upper_readable ? in_use() : 0;
    if (returns && result != to)
        violated(RETURN, "%s: %td bytes from the target", where, (unsigned char *)result - to);
    for (unsigned i = 0; i < 6; i++)
        if (after.saved[i] != 0x5b00 + i)
            violated(SAVED, "%s: register %u of rbx rbp r12-r15", where, i);
    if (after.rflags & 0x400)
        violated(DIRECTION, "%s: direction flag is set", where);
    if (upper)
        violated(UPPER, "%s: upper halves in use, state bits %#x", where, upper);
}

// The bytes around target + to, which must be as they were before.
static void surroundings(size_t to, size_t size, const char *where) {
    size_t low = to < AROUND ? 0 : to - AROUND;
    size_t end = to + size + AROUND < area ? to + size + AROUND : area;
    if (memcmp(target + low, untouched, to - low) ||
        memcmp(target + to + size, untouched, end - to - size))
        violated(CANARY, "%s", where);
}

static void prepare(size_t to, size_t size) {
    size_t low = to < AROUND ? 0 : to - AROUND;
    size_t end = to + size + AROUND < area ? to + size + AROUND : area;
    memset(target + low, UNTOUCHED, end - low);
}

// One copy, and everything around it compared.
static void copy(size_t from, size_t to, size_t size) {
    char where[96];
    snprintf(where, sizeof where, "size %zu, source +%zu, target +%zu", size, from, to);
    prepare(to, size);
    call(target + to, source + from, size, where);
    if (memcmp(target + to, pristine + from, size))
        violated(BYTES, "%s", where);
    surroundings(to, size, where);
    size_t first = from < AROUND ? 0 : from - AROUND;
    size_t last = from + size + AROUND < area ? from + size + AROUND : area;
    if (memcmp(source + first, pristine + first, last - first)) {
        violated(SOURCE, "%s", where);
        memcpy(source, pristine, area);
    }
}

static void fill(size_t to, size_t size, unsigned byte) {
    char where[96];
    snprintf(where, sizeof where, "size %zu, byte %#x, target +%zu", size, byte & 0xff, to);
    static unsigned char wanted[LARGE_AREA];
    prepare(to, size);
    call(target + to, (void *)(uintptr_t)byte, size, where);
    memset(wanted, (int)(byte & 0xff), size);
    if (memcmp(target + to, wanted, size))
        violated(BYTES, "%s", where);
    surroundings(to, size, where);
}

// Within one area: memmove with any distance, memcpy(p, p, n), which compilers emit for a
// structure that is assigned to itself.
static void within(enum kind kind, size_t from, size_t to, size_t size) {
    char where[96];
    snprintf(where, sizeof where, "size %zu, +%zu to +%zu", size, from, to);
    size_t low = (from < to ? from : to), end = (from < to ? to : from) + size;
    low = low < AROUND ? 0 : low - AROUND;
    end = end + AROUND < area ? end + AROUND : area;
    call(source + to, source + from, size, where);
    if (memcmp(source + low, pristine + low, to - low) ||
        memcmp(source + to, pristine + from, size) ||
        memcmp(source + to + size, pristine + to + size, end - to - size))
        violated(kind, "%s", where);
    memcpy(source + low, pristine + low, end - low);
}

static uint32_t next(void) {
    static uint64_t state = 0x2545f4914f6cdd1d;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 20);
}

// Four areas of so many bytes; those of before are left where they are.
static void open_areas(size_t bytes) {
    area = bytes;
    source = guarded();
    target = guarded();
    pristine = guarded();
    untouched = guarded();
    for (size_t i = 0; i < area; i++) {
        unsigned char byte = (unsigned char)next();
        source[i] = pristine[i] = byte == UNTOUCHED ? 0 : byte;
    }
    memset(untouched, UNTOUCHED, area);
}

static void at_the_edges(void (*one)(size_t, size_t, size_t), size_t size) {
    size_t last = area - size;
    one(0, 0, size);
    one(0, last, size);
    one(last, 0, size);
    one(last, last, size);
}

static void any_fill(size_t seed, size_t to, size_t size) {
    fill(to, size, (unsigned)(0xdeadbe00u | ((seed * 37 + size) & 0xff)));
}

static void sizes(void (*one)(size_t, size_t, size_t), int full) {
    size_t step_from = full ? 1 : 7, step_to = full ? 1 : 5;
    for (size_t size = 0; size <= 1024; size += full || size < 300 ? 1 : 11)
        for (size_t from = 0; from < 64; from += step_from)
            for (size_t to = 0; to < 64; to += step_to)
                one(PAGE + from, PAGE + to, size);
    for (size_t size = 0; size <= (full ? 9000u : 1100u); size++)
        at_the_edges(one, size);
    for (int i = 0; i < (full ? 40000 : 600); i++) {
        size_t size = next() % (LARGEST + 1);
        one(next() % PAGE, next() % PAGE, size);
        if (i % 8 == 0)
            at_the_edges(one, size);
    }
}

static void same(int full) {
    for (size_t size = 0; size <= 1100; size += full || size < 70 ? 1 : 13)
        within(SAME, PAGE + size % 64, PAGE + size % 64, size);
    for (int i = 0; i < (full ? 600 : 10); i++) {
        size_t size = next() % (LARGEST + 1), at = next() % PAGE;
        within(SAME, at, at, size);
    }
}

static void overlaps(int full) {
    for (size_t size = 0; size <= 1024; size += full || size < 40 ? 1 : 17)
        for (long distance = -260; distance <= 260; distance += full ? 3 : 13)
            within(OVERLAP, 2 * PAGE + size % 64, (size_t)(2 * PAGE + (long)(size % 64) + distance),
                   size);
    for (int i = 0; i < (full ? 20000 : 400); i++) {
        size_t size = next() % (i % 4 ? 5000 : LARGEST + 1);
        size_t most = area - size;
        size_t from = next() % most, far = next() % (i % 2 ? 300 : most);
        size_t to = next() % 2 ? from + far : from - far;
        if (to < most)
            within(OVERLAP, from, to, size);
    }
}

static void at_itself(size_t from, size_t to, size_t size) {
    (void)from;
    within(SAME, to, to, size);
}

static void overlapping(size_t from, size_t to, size_t size) {
    within(OVERLAP, from, to, size);
}

// Blocks at which a routine may begin to go round the caches, or to leave all to one instruction:
// a routine whose last threshold is above LAST_POWER has a path that nobody has checked.
static void large(void (*one)(size_t, size_t, size_t), int full) {
    for (size_t power = FIRST_POWER; power <= LAST_POWER; power *= 2) {
        size_t between = power / 2 + next() % (power / 2);
        for (int i = 0; i < 4; i++) {
            size_t size = (size_t[]){power - 1, power, power + 1, between}[i];
            one(next() % PAGE, next() % PAGE, size);
            if (full)
                at_the_edges(one, size);
        }
    }
}

static void pages(int clears) {
    returns = 0;
    for (unsigned from = 0; from < area / PAGE; from++)
        for (unsigned to = 0; to < area / PAGE; to++) {
            if (!clears) {
                copy(from * PAGE, to * PAGE, PAGE);
                continue;
            }
            static const unsigned char zeros[PAGE];
            char where[64];
            snprintf(where, sizeof where, "page %u", to);
            prepare(to * PAGE, PAGE);
            call(target + to * PAGE, NULL, 0, where);
            if (memcmp(target + to * PAGE, zeros, PAGE))
                violated(BYTES, "%s", where);
            surroundings(to * PAGE, PAGE, where);
        }
}

int main(int argc, char **argv) {
    if (argc != 3 || (strcmp(argv[2], "thin") && strcmp(argv[2], "full"))) {
        fprintf(stderr, "usage: check memcpy|memmove|memset|copy_page|clear_page thin|full\n");
        return 2;
    }
    const char *function = argv[1];
    int full = !strcmp(argv[2], "full");
    open_areas(20 * PAGE); // LARGEST and an offset
    static unsigned char stack[64 * 1024];
    stack_t aside = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&aside, NULL);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
    for (int i = 0; i < 4; i++)
        sigaction((int[]){SIGSEGV, SIGBUS, SIGILL, SIGTRAP}[i], &action, NULL);
    action.sa_handler = on_tick;
    sigaction(SIGVTALRM, &action, NULL);
    struct itimerval tick = {{0, 250000}, {0, 250000}};
    setitimer(ITIMER_VIRTUAL, &tick, NULL);
    upper_readable = upper_works();

    if (!strcmp(function, "memcpy") || !strcmp(function, "memmove")) {
        sizes(copy, full);
        same(full);
        if (!strcmp(function, "memmove"))
            overlaps(full);
        open_areas(LARGE_AREA);
        large(copy, full);
        if (full)
            large(at_itself, full);
        if (!strcmp(function, "memmove"))
            large(overlapping, full);
    } else if (!strcmp(function, "memset")) {
        sizes(any_fill, full);
        open_areas(LARGE_AREA);
        large(any_fill, full);
    } else if (!strcmp(function, "copy_page") || !strcmp(function, "clear_page")) {
        pages(!strcmp(function, "clear_page"));
    } else {
        fprintf(stderr, "check: what is %s?\n", function);
        return 2;
    }
    return finish();
}
