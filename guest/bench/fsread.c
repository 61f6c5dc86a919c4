// SPDX-License-Identifier: MIT
// The reading half of fscopy: from the beginning again at the end of the file, and the read that
// finds the end is part of the work, as in the original.
#include "bench.h"
#include "workfile.h"

static struct workfile_shape shape;
static int file;

static void setup(int argc, char **argv) {
    shape = workfile_shape(argc, argv);
    file = workfile_create(&shape);
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        workfile_move(&shape);
        while (!workfile_read(&shape, file))
            workfile_rewind(file);
    }
}

static void again(void) {
    workfile_rewind(file);
    workfile_again(&shape);
}

static void cleanup(void) {
    workfile_check(&shape, shape.first);
}

BENCH(fsread) = {
    .help = "read a block of a file that is in the page cache",
    .usage = "BLOCK_BYTES FILE_KIB [PLACE]",
    .setup = setup,
    .body = body,
    .again = again,
    .cleanup = cleanup,
};
