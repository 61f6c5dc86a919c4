// SPDX-License-Identifier: MIT
#include "scatter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { POOL_BYTES_MAX = 32 << 20, MEMORY_PER_POOL = 12 };

// Steele, Lea & Flood's splitmix64: any seed does.
static uint64_t drawn(uint64_t *state) {
    uint64_t word = *state += 0x9e3779b97f4a7c15;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return word ^ word >> 31;
}

size_t scatter(uint64_t seed) {
    struct sysinfo info;
    sysinfo(&info);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pool = (size_t)info.freeram * info.mem_unit / MEMORY_PER_POOL;
    if (pool > POOL_BYTES_MAX)
        pool = POOL_BYTES_MAX;
    size_t pages = 2 * (pool / page), freed = 0;
    uint32_t *order = malloc(pages * sizeof *order);
    int fd = memfd_create("scattered", MFD_CLOEXEC); // never closed: its other half is kept
    if (order && fd >= 0 && !fallocate(fd, 0, 0, (off_t)(pages * page))) {
        for (uint32_t i = 0; i < pages; i++) {
            uint32_t at = (uint32_t)(drawn(&seed) % (i + 1));
            order[i] = order[at];
            order[at] = i;
        }
        int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        while (freed < pages / 2 &&
               !fallocate(fd, how, (off_t)order[freed] * (off_t)page, (off_t)page))
            freed++;
    }
    if (freed < pages / 2)
        fprintf(stderr, "kdyno-guest: pages stay in order: %s\n", strerror(errno));
    free(order);
    return freed < pages / 2 ? 0 : freed;
}
