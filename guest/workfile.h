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
    char *page;      // where the buffer begins; the block lies somewhere in its first page
    size_t first;    // place of the block, in bytes behind `page`, at the beginning
    bool fixed;
    uint64_t moves; // since the beginning of a part of fixed work
};

// From the arguments BLOCK_BYTES FILE_KIB [PLACE], or bench_fail. PLACE: the block always lies so
// many bytes behind the beginning of a page.
struct workfile_shape workfile_shape(int argc, char **argv);
// A file of that shape, written and read once, at its beginning. It has no name any more, so it
// is gone with the process, whatever happens.
int workfile_create(const struct workfile_shape *shape);
void workfile_rewind(int fd);
// The block to another place in its page, unless it is fixed: to be called before each operation.
// How long a kernel copies depends on it, and by how much routines differ too: over 64 KiB `rep
// movsb` was 5, 9 and 16 % faster than a loop at 16, 0 and 2064. One place would say one of them.
void workfile_move(struct workfile_shape *shape);
// The same places as at the beginning follow.
void workfile_again(struct workfile_shape *shape);
void workfile_write(const struct workfile_shape *shape, int fd);
// False at the end of the file.
bool workfile_read(const struct workfile_shape *shape, int fd);
// The block is what lay at this place at the beginning, or bench_fail.
void workfile_check(const struct workfile_shape *shape, size_t place);

#endif
