// SPDX-License-Identifier: MIT
// A process's vector registers have to come through whatever its kernel does with them in between:
// system calls, faults, switches between threads and processes, fork, vfork, exec, signals, ptrace.
// Every step prints its name and dies with a message when a byte is lost. Static, for a guest.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vectors.h"

static void want(int holds, const char *what) {
    if (!holds) {
        printf("lost: %s\n", what);
        exit(1);
    }
}

static int equal(const pattern before, const pattern after) {
    return memcmp(before, after, (size_t)(registers * width)) == 0;
}

static void same(const pattern before, const pattern after, const char *what) {
    want(equal(before, after), what);
}

static long held(uint32_t seed, const char *what, long number, long a, long b, long c) {
    pattern before, after;
    fill(before, seed);
    long result = call_with(before, after, number, a, b, c);
    same(before, after, what);
    return result;
}

static void end_well(pid_t child, const char *what) {
    int status;
    want(waitpid(child, &status, 0) == child, what);
    want(WIFEXITED(status) && WEXITSTATUS(status) == 0, what);
}

static void system_calls(void) {
    for (unsigned i = 0; i < 2000; i++) {
        held(i, "after getpid", SYS_getpid, 0, 0, 0);
    }
}

// A fault in between: the system call writes to a page that has to be made first.
static void faults(void) {
    char *pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    want(pages != MAP_FAILED && pipe(ends) == 0, "pages");
    for (unsigned i = 0; i < 64; i++) {
        want(write(ends[1], "12345678", 8) == 8, "a pipe");
        want(held(i, "after a read into a new page", SYS_read, ends[0], (long)(pages + i * 4096L),
                  8) == 8,
             "a pipe's bytes");
    }
    // More changes of the mappings than one message to the stub holds.
    for (unsigned i = 0; i < 20; i++) {
        char *many =
            mmap(NULL, 512 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        want(many != MAP_FAILED, "many pages");
        for (int page = 0; page < 512; page += 2) {
            many[page * 4096] = 1;
        }
        held(i, "after madvise", SYS_madvise, (long)many, 512 * 4096, MADV_DONTNEED);
        for (int page = 1; page < 512; page += 2) {
            many[page * 4096] = 1;
        }
        held(i, "after munmap", SYS_munmap, (long)many, 512 * 4096, 0);
    }
}

static void *other_thread(void *seed) {
    for (unsigned i = 0; i < 2000; i++) {
        held(*(uint32_t *)seed + i, "between threads", SYS_sched_yield, 0, 0, 0);
    }
    return NULL;
}

// Switches that nobody asked for: each spins with its registers full until all have seen some.
static void *spinner(void *seed) {
    for (uint32_t i = 0; i < 60; i++) {
        pattern before, after;
        struct timespec start, now;
        fill(before, *(uint32_t *)seed + i);
        clock_gettime(CLOCK_MONOTONIC, &start);
        do {
            call_with(before, after, SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0);
            same(before, after, "of a thread that was preempted");
        } while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 1000000);
    }
    return NULL;
}

static void run_threads(void *(*work)(void *), int most) {
    uint32_t seeds[4] = {1000, 20000, 300000, 4000000};
    pthread_t running[4];
    for (int i = 0; i < most; i++) {
        want(pthread_create(&running[i], NULL, work, &seeds[i]) == 0, "a thread");
    }
    for (int i = 0; i < most; i++) {
        pthread_join(running[i], NULL);
    }
}

static void *short_thread(void *seed) {
    held(*(uint32_t *)seed, "of a short thread", SYS_sched_yield, 0, 0, 0);
    return NULL;
}

static void threads(void) {
    run_threads(other_thread, 3);
    run_threads(spinner, 3);
    // Descriptors of tasks are used again.
    for (int i = 0; i < 100; i++) {
        run_threads(short_thread, 2);
    }
}

static void forks(void) {
    for (unsigned i = 0; i < 50; i++) {
        pid_t child = (pid_t)held(i, "after fork", SYS_fork, 0, 0, 0);
        want(child >= 0, "fork");
        for (unsigned turn = 0; turn < 20; turn++) {
            held(i + (child ? 500 : 7000) + turn, "between processes", SYS_sched_yield, 0, 0, 0);
        }
        if (child == 0) {
            _exit(0);
        }
        end_well(child, "a child's registers");
    }
}

// What a new process begins with: a control word of the program before would be a leak.
static void set_control(uint32_t vectors, uint16_t stack) {
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(vectors), "m"(stack));
}

static int is_fresh(void) {
    uint32_t vectors;
    uint16_t stack;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(vectors), "=m"(stack));
    return vectors == 0x1f80 && stack == 0x37f;
}

static pattern borrowed;

// Shares the parent's memory, so its stub as well, while the parent waits inside its system call.
static int borrower(void *myself) {
    fill(borrowed, 78);
    pattern back;
    call_with(borrowed, back, SYS_getpid, 0, 0, 0);
    if (!equal(borrowed, back)) {
        _exit(1);
    }
    set_control(0x3f80, 0x27f);
    execl(myself, myself, "started", (char *)NULL);
    _exit(2);
}

static void vforks(const char *myself) {
    static _Alignas(16) char stack[64 << 10];
    for (uint32_t i = 0; i < 20; i++) {
        pid_t child = clone(borrower, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD,
                            (void *)(uintptr_t)myself);
        want(child > 0, "clone");
        end_well(child, "exec");
    }
}

static void waits(void) {
    for (uint32_t i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (uint32_t turn = 0; turn < 50; turn++) {
                held(turn * 7919 + i, "while a parent waits", SYS_sched_yield, 0, 0, 0);
            }
            _exit(0);
        }
        int status = 1;
        want(held(i, "after waiting", SYS_wait4, child, (long)&status, 0) == child, "a child");
        want(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child that is waited for");
    }
}

static pattern expected;
static volatile int signals;
static volatile int rewrite;

static void clobber(int number, siginfo_t *info, void *context) {
    pattern mine, back;
    ucontext_t *user = context;
    (void)number;
    (void)info;
    if (rewrite) {
        for (int i = 0; i < 16; i++) {
            void *saved = &user->uc_mcontext.fpregs->_xmm[i];
            want(memcmp(saved, low(expected, i), 16) == 0, "in a signal's frame");
            memset(low(expected, i), 42 + i, 16);
            memcpy(saved, low(expected, i), 16);
        }
    }
    fill(mine, 999);
    call_with(mine, back, SYS_sched_yield, 0, 0, 0);
    same(mine, back, "in a handler");
    signals = signals + 1;
}

static void handlers(void) {
    struct sigaction action = {.sa_sigaction = clobber, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    for (unsigned i = 0; i < 200; i++) {
        held(i, "after a signal", SYS_kill, getpid(), SIGUSR1, 0);
    }
    want(signals == 200, "signals");
    pattern after;
    rewrite = 1;
    fill(expected, 5);
    pattern before;
    memcpy(before, expected, sizeof before);
    call_with(before, after, SYS_kill, getpid(), SIGUSR1, 0);
    rewrite = 0;
    same(expected, after, "what a handler wrote");
}

// Signals of a timer, which come anywhere.
static void timers(void) {
    struct sigaction action = {.sa_sigaction = clobber, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}};
    struct itimerval never = {{0, 0}, {0, 0}};
    signals = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned i = 0; signals < 20; i++) {
        held(i, "with a timer's signals", SYS_getppid, 0, 0, 0);
    }
    setitimer(ITIMER_REAL, &never, NULL);
}

// A fault of the program's own, and what its handler gets to see.
static void *forbidden;

static void repair(int number, siginfo_t *info, void *context) {
    pattern mine, back;
    (void)number;
    (void)info;
    (void)context;
    fill(mine, 31337);
    call_with(mine, back, SYS_mprotect, (long)forbidden, 4096, PROT_READ | PROT_WRITE);
    same(mine, back, "in a fault's handler");
}

static void own_faults(void) {
    struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    want(forbidden != MAP_FAILED, "a page");
    for (int i = 0; i < 50; i++) {
        unsigned char full[16], seen[16];
        memset(full, i + 1, sizeof full);
        mprotect(forbidden, 4096, PROT_NONE);
        __asm__ volatile("movdqu %[full], %%xmm7\n\tmovl $1, (%[page])\n\tmovdqu %%xmm7, %[seen]"
                         : [seen] "=m"(seen)
                         : [full] "m"(full), [page] "r"(forbidden)
                         : "xmm7", "memory");
        want(memcmp(full, seen, sizeof full) == 0, "after a fault of its own");
    }
    signal(SIGSEGV, SIG_DFL);
}

static void debugger(void) {
    pid_t child = fork();
    if (child == 0) {
        pattern before, after, wanted;
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        fill(before, 11);
        fill(wanted, 11);
        for (int i = 0; i < 16; i++) {
            memset(low(wanted, i), 24 + i, 16);
        }
        call_with(before, after, SYS_kill, getpid(), SIGSTOP, 0);
        _exit(equal(after, wanted) ? 0 : 1);
    }
    int status;
    struct user_fpregs_struct seen;
    pattern bytes;
    want(waitpid(child, &status, 0) == child && WIFSTOPPED(status), "a stopped child");
    want(ptrace(PTRACE_GETFPREGS, child, 0, &seen) == 0, "PTRACE_GETFPREGS");
    fill(bytes, 11);
    for (int i = 0; i < 16; i++) {
        want(memcmp(&seen.xmm_space[4 * i], low(bytes, i), 16) == 0, "what a debugger reads");
        memset(&seen.xmm_space[4 * i], 24 + i, 16);
    }
    want(ptrace(PTRACE_SETFPREGS, child, 0, &seen) == 0, "PTRACE_SETFPREGS");
    want(ptrace(PTRACE_CONT, child, 0, 0) == 0, "PTRACE_CONT");
    end_well(child, "what a debugger wrote");
}

// The registers in the core of a process that kills itself.
static void core(void) {
    static const char file[] = "/tmp/registers.core";
    int told = open("/proc/sys/kernel/core_pattern", O_WRONLY);
    if (told < 0 || getuid() != 0 || getenv("NO_CORE")) {
        return;
    }
    want(write(told, file, strlen(file)) > 0, "a name for cores");
    close(told);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_CORE, &all);
        pattern before, after;
        fill(before, 987654321);
        call_with(before, after, SYS_kill, getpid(), SIGABRT, 0);
        _exit(0);
    }
    int status;
    want(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "a dead child");
    static char dumped[1 << 20];
    int in = open(file, O_RDONLY);
    want(in >= 0, "a core");
    ssize_t size = read(in, dumped, sizeof dumped);
    close(in);
    unlink(file);
    pattern bytes;
    fill(bytes, 987654321);
    unsigned char row[2 * 16];
    memcpy(row, low(bytes, 0), 16);
    memcpy(row + 16, low(bytes, 1), 16);
    // In the notes, which come first; the stack's own copy has other neighbours when registers are
    // wide.
    want(size > 0 && memmem(dumped, (size_t)size, row, sizeof row) != NULL, "in a core");
}

static void step(const char *name) {
    printf("%s\n", name);
    fflush(stdout);
}

int main(int count, char **words) {
    widest();
    if (count > 1 && strcmp(words[1], "started") == 0) {
        return is_fresh() ? 0 : 1;
    }
    printf("%d registers of %d bytes\n", registers, width);
    step("system calls");
    system_calls();
    step("faults");
    faults();
    own_faults();
    step("threads");
    threads();
    step("fork");
    forks();
    waits();
    step("vfork and exec");
    vforks(words[0]);
    step("signals");
    handlers();
    step("timers");
    timers();
    step("ptrace");
    debugger();
    step("core");
    core();
    printf("kept\n");
    return 0;
}
