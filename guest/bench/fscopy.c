// SPDX-License-Identifier: MIT
// Copying a file block by block within the page cache. Both files are written and read once
// before, and nothing is synced while the clock runs.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static char *block;
static size_t block_bytes;
static int from, to;

static int fresh_file(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d", bench_dir(), name, (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        bench_fail("cannot create %s: %s", path, strerror(errno));
    unlink(path); // gone with the process, whatever happens
    return fd;
}

static void rewind_both(void) {
    if (lseek(from, 0, SEEK_SET) || lseek(to, 0, SEEK_SET))
        bench_fail("lseek: %s", strerror(errno));
}

static void must_write(int fd) {
    errno = 0;
    if (write(fd, block, block_bytes) != (ssize_t)block_bytes)
        bench_fail("cannot write a block of %zu bytes in %s: %s", block_bytes, bench_dir(),
                   errno ? strerror(errno) : "no space left");
}

static void setup(int argc, char **argv) {
    if (argc != 2)
        bench_fail("fscopy wants a block size in bytes and a file size in KiB");
    block_bytes = bench_number(argv[0], "the block size", 1, 64 << 20);
    uint64_t file_bytes = bench_number(argv[1], "the file size", 1, 4 << 20) * 1024;
    uint64_t blocks = file_bytes / block_bytes;
    if (!blocks)
        bench_fail("a block of %s bytes does not fit into %s KiB", argv[0], argv[1]);
    block = malloc(block_bytes);
    if (!block)
        bench_fail("no memory for a block");
    for (size_t i = 0; i < block_bytes; i++)
        block[i] = (char)(i * 7);
    from = fresh_file("from");
    to = fresh_file("to");
    for (uint64_t i = 0; i < blocks; i++) {
        must_write(from);
        must_write(to);
    }
    rewind_both();
    for (uint64_t i = 0; i < blocks; i++)
        if (read(from, block, block_bytes) != (ssize_t)block_bytes ||
            read(to, block, block_bytes) != (ssize_t)block_bytes)
            bench_fail("cannot read back what was written in %s", bench_dir());
    rewind_both();
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations;) {
        ssize_t got = read(from, block, block_bytes);
        if (got == 0) {
            rewind_both();
            continue;
        }
        if (got != (ssize_t)block_bytes)
            bench_fail("read: %s", got < 0 ? strerror(errno) : "part of a block");
        must_write(to);
        i++;
    }
}

static void cleanup(void) {
    for (size_t i = 0; i < block_bytes; i++)
        if (block[i] != (char)(i * 7))
            bench_fail("the copied block changed at byte %zu", i);
}

BENCH(fscopy) = {
    .help = "read a block of one file and write it to a second one",
    .usage = "BLOCK_BYTES FILE_KIB",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
