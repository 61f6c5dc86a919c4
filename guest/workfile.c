// SPDX-License-Identifier: MIT
#include "workfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static char pattern(size_t at) {
    return (char)(at * 7);
}

struct workfile_shape workfile_shape(int argc, char **argv) {
    if (argc != 2)
        bench_fail("a block size in bytes and a file size in KiB are wanted");
    struct workfile_shape shape = {.block_bytes =
                                       bench_number(argv[0], "the block size", 1, 64 << 20)};
    shape.blocks =
        bench_number(argv[1], "the file size", 1, 4 << 20) * 1024 / (uint64_t)shape.block_bytes;
    if (!shape.blocks)
        bench_fail("a block of %s bytes does not fit into %s KiB", argv[0], argv[1]);
    shape.block = malloc(shape.block_bytes);
    if (!shape.block)
        bench_fail("no memory for a block");
    for (size_t i = 0; i < shape.block_bytes; i++)
        shape.block[i] = pattern(i);
    return shape;
}

void workfile_rewind(int fd) {
    if (lseek(fd, 0, SEEK_SET))
        bench_fail("lseek: %s", strerror(errno));
}

void workfile_write(const struct workfile_shape *shape, int fd) {
    errno = 0;
    if (write(fd, shape->block, shape->block_bytes) != (ssize_t)shape->block_bytes)
        bench_fail("cannot write a block of %zu bytes in %s: %s", shape->block_bytes, bench_dir(),
                   errno ? strerror(errno) : "no space left");
}

bool workfile_read(const struct workfile_shape *shape, int fd) {
    ssize_t got = read(fd, shape->block, shape->block_bytes);
    if (got && got != (ssize_t)shape->block_bytes)
        bench_fail("read: %s", got < 0 ? strerror(errno) : "part of a block");
    return got > 0;
}

int workfile_create(const struct workfile_shape *shape) {
    static int count;
    char path[4096];
    snprintf(path, sizeof path, "%s/kdyno-file-%d-%d", bench_dir(), (int)getpid(), count++);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        bench_fail("cannot create %s: %s", path, strerror(errno));
    unlink(path);
    for (uint64_t i = 0; i < shape->blocks; i++)
        workfile_write(shape, fd);
    workfile_rewind(fd);
    for (uint64_t i = 0; i < shape->blocks; i++)
        if (!workfile_read(shape, fd))
            bench_fail("cannot read back what was written in %s", bench_dir());
    workfile_rewind(fd);
    return fd;
}

void workfile_check(const struct workfile_shape *shape) {
    for (size_t i = 0; i < shape->block_bytes; i++)
        if (shape->block[i] != pattern(i))
            bench_fail("the block changed on its way at byte %zu", i);
}
