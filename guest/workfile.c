// SPDX-License-Identifier: MIT
#include "workfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bench.h"

// Places are as far apart as those of malloc. Steps of about 0.38 of them spread any number evenly.
enum {
    PASSES = 4,
    PAGE_BYTES = 4096,
    PLACE_BYTES = 16,
    PLACES = PAGE_BYTES / PLACE_BYTES,
    STEP = 97
};

static char pattern(size_t at) {
    return (char)(at * 7);
}

struct workfile_shape workfile_shape(int argc, char **argv) {
    if (argc != 2 && argc != 3)
        bench_fail("a block size in bytes and a file size in KiB are wanted");
    struct workfile_shape shape = {
        .block_bytes = bench_number(argv[0], "the block size", 1, 64 << 20),
        .first = argc == 3 ? bench_number(argv[2], "the place in a page", 0, PAGE_BYTES - 1) : 0,
        .fixed = argc == 3,
    };
    shape.blocks =
        bench_number(argv[1], "the file size", 1, 4 << 20) * 1024 / (uint64_t)shape.block_bytes;
    if (!shape.blocks)
        bench_fail("a block of %s bytes does not fit into %s KiB", argv[0], argv[1]);
    size_t pages = (PAGE_BYTES + shape.block_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    shape.page = aligned_alloc(PAGE_BYTES, pages * PAGE_BYTES);
    if (!shape.page)
        bench_fail("no memory for a block");
    for (size_t at = 0; at < PAGE_BYTES + shape.block_bytes; at++)
        shape.page[at] = pattern(at);
    shape.block = shape.page + shape.first;
    return shape;
}

void workfile_move(struct workfile_shape *shape) {
    if (!shape->fixed)
        shape->block = shape->page + PLACE_BYTES * (STEP * ++shape->moves % PLACES);
}

void workfile_again(struct workfile_shape *shape) {
    shape->moves = 0;
}

void workfile_rewind(int fd) {
    if (lseek(fd, 0, SEEK_SET))
        bench_fail("lseek: %s", strerror(errno));
}

static void put(int fd, const char *bytes, size_t count) {
    errno = 0;
    if (write(fd, bytes, count) != (ssize_t)count)
        bench_fail("cannot write %zu bytes in %s: %s", count, bench_dir(),
                   errno ? strerror(errno) : "no space left");
}

void workfile_write(const struct workfile_shape *shape, int fd) {
    put(fd, shape->block, shape->block_bytes);
}

bool workfile_read(const struct workfile_shape *shape, int fd) {
    ssize_t got = read(fd, shape->block, shape->block_bytes);
    if (got && got != (ssize_t)shape->block_bytes)
        bench_fail("read: %s", got < 0 ? strerror(errno) : "part of a block");
    return got > 0;
}

// Whole blocks in about so many bytes, and one at least.
static size_t piece(const struct workfile_shape *shape, size_t bytes) {
    return shape->block_bytes * (bytes > shape->block_bytes ? bytes / shape->block_bytes : 1);
}

// Written a page at a time, if blocks are smaller: a file system may lay out its pages otherwise
// when more comes at once. tmpfs does not, and reading changes nothing.
static void fill(const struct workfile_shape *shape, int fd) {
    struct statfs about;
    bool any = !fstatfs(fd, &about) && about.f_type == TMPFS_MAGIC;
    size_t most = piece(shape, 65536), at_once = any ? most : piece(shape, 4096);
    char *blocks = malloc(most), *back = malloc(most);
    if (!blocks || !back)
        bench_fail("no memory for the blocks of a file");
    for (size_t at = 0; at < most; at += shape->block_bytes)
        memcpy(blocks + at, shape->block, shape->block_bytes);
    size_t whole = shape->block_bytes * shape->blocks;
    for (size_t left = whole, count; left; left -= count) {
        count = left < at_once ? left : at_once;
        put(fd, blocks, count);
    }
    // Its pages are to be what a file's are that is used: those that are touched for the second and
    // third time still change lists, and the first pass over the file would be another path.
    for (int pass = 0; pass < PASSES; pass++) {
        workfile_rewind(fd);
        for (size_t left = whole, count; left; left -= count) {
            count = left < most ? left : most;
            if (read(fd, back, count) != (ssize_t)count || (!pass && memcmp(back, blocks, count)))
                bench_fail("cannot read back what was written in %s", bench_dir());
        }
    }
    workfile_rewind(fd);
    free(blocks);
    free(back);
}

int workfile_create(const struct workfile_shape *shape) {
    static int count;
    char path[4096];
    snprintf(path, sizeof path, "%s/kdyno-file-%d-%d", bench_dir(), (int)getpid(), count++);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        bench_fail("cannot create %s: %s", path, strerror(errno));
    unlink(path);
    fill(shape, fd);
    return fd;
}

void workfile_check(const struct workfile_shape *shape, size_t place) {
    for (size_t i = 0; i < shape->block_bytes; i++)
        if (shape->block[i] != pattern(place + i))
            bench_fail("the block changed on its way at byte %zu", i);
}
