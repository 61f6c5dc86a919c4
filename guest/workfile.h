// SPDX-License-Identifier: MIT
// Files that a benchmark reads and writes block by block, within the page cache.
#ifndef KDYNO_WORKFILE_H
#define KDYNO_WORKFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct workfile_shape {
    char *block;
    size_t block_bytes;
    uint64_t blocks; // of a whole file
};

// From the arguments BLOCK_BYTES FILE_KIB, or bench_fail.
struct workfile_shape workfile_shape(int argc, char **argv);
// A file of that shape, written and read once, at its beginning. It has no name any more, so it
// is gone with the process, whatever happens.
int workfile_create(const struct workfile_shape *shape);
void workfile_rewind(int fd);
void workfile_write(const struct workfile_shape *shape, int fd);
// False at the end of the file.
bool workfile_read(const struct workfile_shape *shape, int fd);
// What was read and written last is what was written first, or bench_fail.
void workfile_check(const struct workfile_shape *shape);

#endif
