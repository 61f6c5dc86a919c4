// SPDX-License-Identifier: MIT
// One page again and again: which one the allocator gives is then the same each time.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

static volatile char *page;
static size_t size;

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    size = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        bench_fail("mmap: %s", strerror(errno));
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        *page = 1;
        if (madvise((void *)page, size, MADV_DONTNEED))
            bench_fail("madvise: %s", strerror(errno));
    }
}

BENCH(pagefault) = {
    .help = "write to a page that is not there yet, and give it back (madvise)",
    .setup = setup,
    .body = body,
};
