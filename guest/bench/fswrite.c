// SPDX-License-Identifier: MIT
// The writing half of fscopy: over what is there, from the beginning again at the end of the file.
#include "bench.h"
#include "workfile.h"

static struct workfile_shape shape;
static int file;
static uint64_t at;  // block of the file
static size_t place; // of the block in the buffer, when it was written as the file's first

static void setup(int argc, char **argv) {
    shape = workfile_shape(argc, argv);
    file = workfile_create(&shape);
    place = shape.first;
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        workfile_move(&shape);
        if (!at)
            place = (size_t)(shape.block - shape.page);
        workfile_write(&shape, file);
        if (++at == shape.blocks) {
            workfile_rewind(file);
            at = 0;
        }
    }
}

static void again(void) {
    workfile_rewind(file);
    workfile_again(&shape);
    at = 0;
}

static void cleanup(void) {
    workfile_rewind(file);
    if (!workfile_read(&shape, file))
        bench_fail("nothing is in the file that was written");
    workfile_check(&shape, place);
}

BENCH(fswrite) = {
    .help = "write a block of a file over what is in the page cache",
    .usage = "BLOCK_BYTES FILE_KIB [PLACE]",
    .setup = setup,
    .body = body,
    .again = again,
    .cleanup = cleanup,
};
