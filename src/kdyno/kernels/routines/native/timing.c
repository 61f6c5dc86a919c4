/* SPDX-License-Identifier: MIT */
/*
 * Times memory routines: `timing RACK.so CPU`. Work comes in on stdin, one line each; what was
 * found goes out on stdout. Each routine is announced before it is called, so that whoever reads
 * knows which one was running when nothing more comes.
 *
 *	clock				→ clock TSC_GHZ CORE_GHZ
 *	region BYTES			→ region BYTES		(a target and a source of that size)
 *	pool PATH			→ pool COUNT		(copies to draw from: struct draw)
 *	stores WIDTH BYTES		→ stores BYTES_PER_NS
 *	copies WIDTH BYTES		→ copies BYTES_PER_NS
 *	fixed ID NAME SIZE DST SRC REPETITIONS NS CALLS	→ begin ID, done ID NS_PER_CALL CORE_GHZ
 *	drawn ID NAME COUNT REPETITIONS SEED TOUCH READ	→ begin ID, done ID NS_PER_CALL CORE_GHZ
 *
 * NAME is a function of the rack; =libc is the C library's memcpy. A repetition has CALLS, as a
 * published table may want them; 0: as many as last NS. Its score is its mean; the line's is the
 * median of the repetitions. TOUCH bytes of target and source are read first, to bring them into
 * the caches that they fit into. Copies of at most READ bytes are values: each is read at once, and
 * the next call waits for it. Any mistake in the work ends the program.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ceiling.h"
#include "clock.h"

typedef void *copy(void *to, const void *from, size_t bytes);

enum { MOST_REPETITIONS = 1000, MOST_REGIONS = 16, HUGE = 2 << 20 };

struct draw {
	uint32_t size, dst, src;
};

struct bench {
	void *rack;
	struct region {
		unsigned char *to, *from;
		size_t bytes;
	} regions[MOST_REGIONS];
	unsigned char *to, *from;
	size_t region;
	const struct draw *pool;
	size_t draws;
	double tsc_ghz;
};

__attribute__((noreturn, format(printf, 1, 2))) static void stop(const char *text, ...)
{
	va_list arguments;

	va_start(arguments, text);
	fputs("timing: ", stderr);
	vfprintf(stderr, text, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(2);
}

static unsigned char *filled(size_t bytes)
{
	/* Large pages, as the kernel's own map of memory has, else the largest sets measure the
	 * walks through page tables. */
	size_t whole = (bytes + 2 * HUGE - 1) / HUGE * HUGE;
	unsigned char *at = mmap(NULL, whole + HUGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		stop("no memory for a region of %zu bytes", bytes);
	at += (HUGE - ((uintptr_t)at & (HUGE - 1))) & (HUGE - 1);
	madvise(at, whole, MADV_HUGEPAGE);
	memset(at, 0x5a, whole);
	return at;
}

static void open_region(struct bench *bench, size_t bytes)
{
	struct region *at = bench->regions;

	while (at->bytes != 0 && at->bytes != bytes)
		if (++at == bench->regions + MOST_REGIONS)
			stop("more than %d regions", MOST_REGIONS);
	if (at->bytes == 0)
		*at = (struct region){filled(bytes), filled(bytes), bytes};
	bench->to = at->to;
	bench->from = at->from;
	bench->region = bytes;
}

static void open_pool(struct bench *bench, const char *path)
{
	int file = open(path, O_RDONLY);
	struct stat about;
	void *at;

	if (file < 0 || fstat(file, &about) != 0 || about.st_size < (off_t)sizeof(struct draw))
		stop("no pool in %s", path);
	at = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
	if (at == MAP_FAILED)
		stop("cannot map %s", path);
	close(file);
	bench->pool = at;
	bench->draws = (size_t)about.st_size / sizeof(struct draw);
	for (size_t i = 0; i < bench->draws; i++) {
		const struct draw *it = &bench->pool[i];

		if ((size_t)it->dst + it->size > bench->region ||
		    (size_t)it->src + it->size > bench->region)
			stop("draw %zu of %s leaves the region", i, path);
	}
}

static copy *found(const struct bench *bench, const char *name)
{
	void *at = name[0] == '=' ? dlsym(RTLD_DEFAULT, "memcpy") : dlsym(bench->rack, name);
	copy *function;

	if (at == NULL)
		stop("%s is not in the rack", name);
	memcpy(&function, &at, sizeof(function));
	return function;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), ascending);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

__attribute__((noinline, aligned(64))) static double one_size(copy *run, unsigned char *to,
							      const unsigned char *from,
							      size_t size, size_t calls)
{
	uint64_t begin = ticks();

	for (size_t call = 0; call < calls; call++) {
		run(to, from, size);
		__asm__ volatile("" : : : "memory");
	}
	return (double)(ticks() - begin);
}

__attribute__((noinline, aligned(64))) static double many_sizes(copy *run, unsigned char *to,
								const unsigned char *from,
								const struct draw *at, size_t calls)
{
	uint64_t begin = ticks();

	for (const struct draw *end = at + calls; at < end; at++) {
		run(to + at->dst, from + at->src, at->size);
		__asm__ volatile("" : : : "memory");
	}
	return (double)(ticks() - begin);
}

/* The same, but what was copied is read when it has at most ``read`` bytes. The next call's address
 * depends on it, which costs what the caller of get_user() pays. */
__attribute__((noinline, aligned(64))) static double read_back(copy *run, unsigned char *to,
							       const unsigned char *from,
							       const struct draw *at, size_t calls,
							       size_t read)
{
	uint64_t begin = ticks();

	for (const struct draw *end = at + calls; at < end; at++) {
		unsigned char *target = to + at->dst;
		uint64_t value;

		run(target, from + at->src, at->size);
		__asm__ volatile("" : : : "memory");
		if (at->size <= read) {
			value = *(volatile unsigned char *)target;
			/* Zero, and yet the processor waits for the value. */
			__asm__ volatile("and $0, %0" : "+r"(value));
			from += value;
		}
	}
	return (double)(ticks() - begin);
}

static void tell(const struct bench *bench, const char *id, double *scores, size_t count,
		 double before_ghz)
{
	double ghz = (before_ghz + core_ghz(bench->tsc_ghz)) / 2;

	printf("done %s %.5f %.5f\n", id, median(scores, count), ghz);
	fflush(stdout);
}

static void fixed(const struct bench *bench, const char *id, copy *run, const size_t *given)
{
	size_t size = given[0], dst = given[1], src = given[2], count = given[3];
	double wanted = (double)given[4] * bench->tsc_ghz, taken;
	double scores[MOST_REPETITIONS];
	size_t calls = given[5];
	double ghz;

	if (dst + size > bench->region || src + size > bench->region)
		stop("%s leaves the region", id);
	/* Finding how many calls last long enough warms everything up as well. */
	if (calls > 0) {
		one_size(run, bench->to + dst, bench->from + src, size, calls / 64 + 1);
	} else {
		calls = 16;
		while ((taken = one_size(run, bench->to + dst, bench->from + src, size, calls)) <
		       wanted)
			calls = taken * 8 < wanted ? calls * 8
						   : (size_t)((double)calls * wanted / taken) + 1;
	}
	ghz = core_ghz(bench->tsc_ghz);
	for (size_t i = 0; i < count; i++)
		scores[i] = one_size(run, bench->to + dst, bench->from + src, size, calls) /
			    (double)calls / bench->tsc_ghz;
	tell(bench, id, scores, count, ghz);
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void drawn(const struct bench *bench, const char *id, copy *run, const size_t *given)
{
	size_t calls = given[0], count = given[1];
	uint64_t state = given[2];
	double scores[MOST_REPETITIONS];
	double ghz;

	if (calls < 1 || calls > bench->draws || given[3] > bench->region)
		stop("%s wants %zu of %zu draws", id, calls, bench->draws);
	for (size_t i = 0; i < given[3]; i += 64) {
		(void)*(volatile unsigned char *)(bench->to + i);
		(void)*(volatile unsigned char *)(bench->from + i);
	}
	ghz = core_ghz(bench->tsc_ghz);
	/* The first repetition warms up. Each starts elsewhere in the pool, so that no predictor
	 * meets the same order twice; the seed makes it the same places for every routine. */
	for (size_t i = 0; i <= count; i++) {
		size_t start = next_random(&state) % (bench->draws - calls + 1);

		double taken = given[4] ? read_back(run, bench->to, bench->from,
						    bench->pool + start, calls, given[4])
					: many_sizes(run, bench->to, bench->from,
						     bench->pool + start, calls);

		scores[i ? i - 1 : 0] = taken / (double)calls / bench->tsc_ghz;
	}
	tell(bench, id, scores, count, ghz);
}

/* One line of work; false for one that is none. */
static int done(struct bench *bench, char *line)
{
	char id[64], name[128], path[512];
	size_t at[6];

	if (strcmp(line, "clock") == 0) {
		bench->tsc_ghz = tick_ghz();
		printf("clock %.6f %.6f\n", bench->tsc_ghz, core_ghz(bench->tsc_ghz));
	} else if (sscanf(line, "region %zu", &at[0]) == 1) {
		open_region(bench, at[0]);
		printf("region %zu\n", bench->region);
	} else if (sscanf(line, "pool %511[^\n]", path) == 1) {
		open_pool(bench, path);
		printf("pool %zu\n", bench->draws);
	} else if (sscanf(line, "stores %zu %zu", &at[0], &at[1]) == 2 && at[1] <= bench->region) {
		printf("stores %.5f\n",
		       store_rate(bench->to, at[1], (int)at[0], bench->tsc_ghz));
	} else if (sscanf(line, "copies %zu %zu", &at[0], &at[1]) == 2 && at[1] <= bench->region) {
		printf("copies %.5f\n",
		       copy_rate(bench->to, bench->from, at[1], (int)at[0], bench->tsc_ghz));
	} else if (sscanf(line, "fixed %63s %127s %zu %zu %zu %zu %zu %zu", id, name, &at[0],
			  &at[1], &at[2], &at[3], &at[4], &at[5]) == 8 &&
		   at[3] >= 1 && at[3] <= MOST_REPETITIONS) {
		printf("begin %s\n", id);
		fflush(stdout);
		fixed(bench, id, found(bench, name), at);
	} else if (sscanf(line, "drawn %63s %127s %zu %zu %zu %zu %zu", id, name, &at[0],
			  &at[1], &at[2], &at[3], &at[4]) == 7 &&
		   at[1] >= 1 && at[1] <= MOST_REPETITIONS) {
		printf("begin %s\n", id);
		fflush(stdout);
		drawn(bench, id, found(bench, name), at);
	} else {
		return 0;
	}
	fflush(stdout);
	return 1;
}

int main(int count, char **words)
{
	struct bench bench = {.tsc_ghz = 1};
	char line[1024];
	cpu_set_t cpus;

	if (count != 3)
		stop("usage: timing RACK.so CPU");
	CPU_ZERO(&cpus);
	CPU_SET((size_t)atoi(words[2]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0)
		stop("cannot stay on CPU %s", words[2]);
	bench.rack = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
	if (bench.rack == NULL)
		stop("%s", dlerror());
	bench.tsc_ghz = tick_ghz();
	while (fgets(line, sizeof(line), stdin) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (!done(&bench, line))
			stop("no work: %.60s", line);
	}
	return 0;
}
