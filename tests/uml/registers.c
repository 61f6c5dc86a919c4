// SPDX-License-Identifier: MIT
// A process's vector registers have to come through whatever its kernel does with them in between:
// system calls, faults, switches between threads and processes, fork, vfork, exec, signals, ptrace.
// Every step prints its name and dies with a message when a byte is lost. Static, for a guest.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGISTERS = 16, BYTES = REGISTERS * 16 };

typedef unsigned char pattern[BYTES];

static void fill(pattern bytes, unsigned seed)
{
	for (int i = 0; i < BYTES; i++) {
		bytes[i] = (unsigned char)(seed * 37 + i * 11 + 1);
	}
}

// Fills all sixteen registers, makes the system call, and says what they hold after it.
static long call_with(const pattern before, pattern after, long number, long a, long b, long c)
{
	long result = number;
	__asm__ volatile("movdqu 0(%[in]), %%xmm0\n\tmovdqu 16(%[in]), %%xmm1\n\t"
	                 "movdqu 32(%[in]), %%xmm2\n\tmovdqu 48(%[in]), %%xmm3\n\t"
	                 "movdqu 64(%[in]), %%xmm4\n\tmovdqu 80(%[in]), %%xmm5\n\t"
	                 "movdqu 96(%[in]), %%xmm6\n\tmovdqu 112(%[in]), %%xmm7\n\t"
	                 "movdqu 128(%[in]), %%xmm8\n\tmovdqu 144(%[in]), %%xmm9\n\t"
	                 "movdqu 160(%[in]), %%xmm10\n\tmovdqu 176(%[in]), %%xmm11\n\t"
	                 "movdqu 192(%[in]), %%xmm12\n\tmovdqu 208(%[in]), %%xmm13\n\t"
	                 "movdqu 224(%[in]), %%xmm14\n\tmovdqu 240(%[in]), %%xmm15\n\t"
	                 "syscall\n\t"
	                 "movdqu %%xmm0, 0(%[out])\n\tmovdqu %%xmm1, 16(%[out])\n\t"
	                 "movdqu %%xmm2, 32(%[out])\n\tmovdqu %%xmm3, 48(%[out])\n\t"
	                 "movdqu %%xmm4, 64(%[out])\n\tmovdqu %%xmm5, 80(%[out])\n\t"
	                 "movdqu %%xmm6, 96(%[out])\n\tmovdqu %%xmm7, 112(%[out])\n\t"
	                 "movdqu %%xmm8, 128(%[out])\n\tmovdqu %%xmm9, 144(%[out])\n\t"
	                 "movdqu %%xmm10, 160(%[out])\n\tmovdqu %%xmm11, 176(%[out])\n\t"
	                 "movdqu %%xmm12, 192(%[out])\n\tmovdqu %%xmm13, 208(%[out])\n\t"
	                 "movdqu %%xmm14, 224(%[out])\n\tmovdqu %%xmm15, 240(%[out])"
	                 : "+a"(result)
	                 : "D"(a), "S"(b), "d"(c), [in] "r"(before), [out] "r"(after)
	                 : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
	                   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	return result;
}

static void want(int holds, const char *what)
{
	if (!holds) {
		printf("lost: %s\n", what);
		exit(1);
	}
}

static void same(const pattern before, const pattern after, const char *what)
{
	want(memcmp(before, after, BYTES) == 0, what);
}

static long held(unsigned seed, const char *what, long number, long a, long b, long c)
{
	pattern before, after;
	fill(before, seed);
	long result = call_with(before, after, number, a, b, c);
	same(before, after, what);
	return result;
}

static void end_well(pid_t child, const char *what)
{
	int status;
	want(waitpid(child, &status, 0) == child, what);
	want(WIFEXITED(status) && WEXITSTATUS(status) == 0, what);
}

static void system_calls(void)
{
	for (unsigned i = 0; i < 2000; i++) {
		held(i, "after getpid", SYS_getpid, 0, 0, 0);
	}
}

// A fault in between: the system call writes to a page that has to be made first.
static void faults(void)
{
	char *pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ends[2];
	want(pages != MAP_FAILED && pipe(ends) == 0, "pages");
	for (unsigned i = 0; i < 64; i++) {
		want(write(ends[1], "12345678", 8) == 8, "a pipe");
		want(held(i, "after a read into a new page", SYS_read, ends[0], (long)(pages + i * 4096L),
		          8) == 8,
		     "a pipe's bytes");
	}
}

static void *other_thread(void *seed)
{
	for (unsigned i = 0; i < 2000; i++) {
		held(*(unsigned *)seed + i, "between threads", SYS_sched_yield, 0, 0, 0);
	}
	return NULL;
}

static void threads(void)
{
	unsigned seeds[3] = { 1000, 20000, 300000 };
	pthread_t running[3];
	for (int i = 0; i < 3; i++) {
		want(pthread_create(&running[i], NULL, other_thread, &seeds[i]) == 0, "a thread");
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(running[i], NULL);
	}
}

static void forks(void)
{
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

static void vforks(const char *myself)
{
	pattern before, after;
	fill(before, 77);
	pid_t child = vfork();
	if (child == 0) {
		pattern mine, back;
		fill(mine, 78);
		call_with(mine, back, SYS_getpid, 0, 0, 0);
		if (memcmp(mine, back, BYTES) != 0) {
			_exit(1);
		}
		execl(myself, myself, "started", (char *)NULL);
		_exit(2);
	}
	call_with(before, after, SYS_getpid, 0, 0, 0);
	same(before, after, "after vfork");
	end_well(child, "exec");
}

static pattern expected;
static volatile int signals;
static volatile int rewrite;

static void clobber(int number, siginfo_t *info, void *context)
{
	pattern mine, back;
	ucontext_t *user = context;
	(void)number;
	(void)info;
	if (rewrite) {
		want(memcmp(user->uc_mcontext.fpregs->_xmm, expected, BYTES) == 0, "in a signal's frame");
		fill(expected, 4242);
		memcpy(user->uc_mcontext.fpregs->_xmm, expected, BYTES);
	}
	fill(mine, 999);
	call_with(mine, back, SYS_sched_yield, 0, 0, 0);
	same(mine, back, "in a handler");
	signals = signals + 1;
}

static void handlers(void)
{
	struct sigaction action = { .sa_sigaction = clobber, .sa_flags = SA_SIGINFO };
	sigaction(SIGUSR1, &action, NULL);
	for (unsigned i = 0; i < 200; i++) {
		held(i, "after a signal", SYS_kill, getpid(), SIGUSR1, 0);
	}
	want(signals == 200, "signals");
	pattern after;
	rewrite = 1;
	fill(expected, 5);
	pattern before;
	memcpy(before, expected, BYTES);
	call_with(before, after, SYS_kill, getpid(), SIGUSR1, 0);
	rewrite = 0;
	same(expected, after, "what a handler wrote");
}

// Signals of a timer, which come anywhere.
static void timers(void)
{
	struct sigaction action = { .sa_sigaction = clobber, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	signals = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; signals < 20; i++) {
		held(i, "with a timer's signals", SYS_getppid, 0, 0, 0);
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

static void debugger(void)
{
	pid_t child = fork();
	if (child == 0) {
		pattern before, after, wanted;
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		fill(before, 11);
		fill(wanted, 12);
		call_with(before, after, SYS_kill, getpid(), SIGSTOP, 0);
		_exit(memcmp(after, wanted, BYTES) == 0 ? 0 : 1);
	}
	int status;
	struct user_fpregs_struct seen;
	pattern bytes;
	want(waitpid(child, &status, 0) == child && WIFSTOPPED(status), "a stopped child");
	want(ptrace(PTRACE_GETFPREGS, child, 0, &seen) == 0, "PTRACE_GETFPREGS");
	fill(bytes, 11);
	want(memcmp(seen.xmm_space, bytes, BYTES) == 0, "what a debugger reads");
	fill(bytes, 12);
	memcpy(seen.xmm_space, bytes, BYTES);
	want(ptrace(PTRACE_SETFPREGS, child, 0, &seen) == 0, "PTRACE_SETFPREGS");
	want(ptrace(PTRACE_CONT, child, 0, 0) == 0, "PTRACE_CONT");
	end_well(child, "what a debugger wrote");
}

static void step(const char *name)
{
	printf("%s\n", name);
	fflush(stdout);
}

int main(int count, char **words)
{
	if (count > 1 && strcmp(words[1], "started") == 0) {
		uint32_t control;
		__asm__("stmxcsr %0" : "=m"(control));
		return control == 0x1f80 ? 0 : 1;
	}
	step("system calls");
	system_calls();
	step("faults");
	faults();
	step("threads");
	threads();
	step("fork");
	forks();
	step("vfork and exec");
	vforks(words[0]);
	step("signals");
	handlers();
	step("timers");
	timers();
	step("ptrace");
	debugger();
	printf("kept\n");
	return 0;
}
