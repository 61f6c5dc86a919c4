// SPDX-License-Identifier: MIT
// Counts a kernel's copies a second way: ptrace stops it where memcpy begins to copy.
//
//   copies_tracer OUTPUT BREAKPOINT SWITCH FROM1 TO1 FROM2 TO2 -- KERNEL ARGS...
//
// BREAKPOINT is the address of memcpy_orig, whose first instruction is mov %rdi,%rax: it is
// carried out here. SWITCH is the address of the int that is 1 while copies count. Callers in
// [FROM, TO) have frame pointers; who called them is asked for. A line is: caller size dst src.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned char wanted[] = {0x48, 0x89, 0xf8}; // mov %rdi,%rax

static pid_t kernel;
static unsigned long place, on, passing[2][2];
static FILE *out;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "copies_tracer: %s: %s\n", what, strerror(errno));
    if (kernel > 0)
        kill(kernel, SIGKILL);
    exit(1);
}

static unsigned long peek(unsigned long address) {
    errno = 0;
    unsigned long word = (unsigned long)ptrace(PTRACE_PEEKDATA, kernel, address, 0);
    if (errno)
        die("cannot read the kernel's memory");
    return word;
}

// The kernel's file has just been mapped (again: it executes itself a second time).
static void plant(void) {
    unsigned long word = peek(place);
    if (memcmp(&word, wanted, sizeof wanted)) {
        errno = EINVAL;
        die("memcpy_orig begins in another way");
    }
    if (ptrace(PTRACE_POKETEXT, kernel, place, (word & ~0xfful) | 0xcc))
        die("cannot plant a breakpoint");
}

static int passes_on(unsigned long address) {
    for (int i = 0; i < 2; i++)
        if (address >= passing[i][0] && address < passing[i][1])
            return 1;
    return 0;
}

static void at_breakpoint(struct user_regs_struct *regs) {
    if ((int)peek(on) == 1) {
        unsigned long caller = peek(regs->rsp), frame = regs->rbp;
        while (passes_on(caller)) {
            caller = peek(frame + 8);
            frame = peek(frame);
        }
        fprintf(out, "%lu %llu %llu %llu\n", caller, regs->rdx, regs->rdi & 63, regs->rsi & 63);
    }
    regs->rax = regs->rdi;
    regs->rip = place + sizeof wanted;
    if (ptrace(PTRACE_SETREGS, kernel, 0, regs))
        die("cannot set registers");
}

// What to deliver to the kernel after a stop; 0 is nothing.
static int stopped(int status) {
    int signal = WSTOPSIG(status);
    struct user_regs_struct regs;
    if (signal != SIGTRAP)
        return signal;
    if (status >> 16 == PTRACE_EVENT_EXEC) {
        plant();
        return 0;
    }
    if (ptrace(PTRACE_GETREGS, kernel, 0, &regs))
        die("cannot read registers");
    if (regs.rip != place + 1)
        return signal;
    at_breakpoint(&regs);
    return 0;
}

static unsigned long number(const char *text) {
    return strtoul(text, NULL, 0);
}

int main(int argc, char **argv) {
    if (argc < 10 || strcmp(argv[8], "--")) {
        fprintf(stderr, "usage: see the beginning of copies_tracer.c\n");
        return 2;
    }
    place = number(argv[2]);
    on = number(argv[3]);
    for (int i = 0; i < 4; i++)
        passing[i / 2][i % 2] = number(argv[4 + i]);
    out = fopen(argv[1], "we");
    if (!out)
        die(argv[1]);
    kernel = fork();
    if (!kernel) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        execv(argv[9], argv + 9);
        _exit(127);
    }
    int status, deliver = 0;
    if (kernel < 0 || waitpid(kernel, &status, 0) != kernel ||
        ptrace(PTRACE_SETOPTIONS, kernel, 0, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL))
        die("cannot start the kernel");
    do {
        if (ptrace(PTRACE_CONT, kernel, 0, deliver) && errno != ESRCH)
            die("cannot go on");
        if (waitpid(kernel, &status, 0) != kernel)
            die("waitpid");
        deliver = WIFSTOPPED(status) ? stopped(status) : 0;
    } while (WIFSTOPPED(status));
    if (fclose(out))
        die(argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
