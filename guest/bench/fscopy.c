// SPDX-License-Identifier: MIT
// Copying a file block by block within the page cache. Both files are written and read once
// before, and nothing is synced while the clock runs.
#include "bench.h"
#include "workfile.h"

static struct workfile_shape shape;
static int from, to;

static void setup(int argc, char **argv) {
    shape = workfile_shape(argc, argv);
    from = workfile_create(&shape);
    to = workfile_create(&shape);
}

static void rewind_both(void) {
    workfile_rewind(from);
    workfile_rewind(to);
}

static void body(uint64_t iterations) {
    for (uint64_t i = 0; i < iterations; i++) {
        workfile_move(&shape);
        while (!workfile_read(&shape, from))
            rewind_both();
        workfile_write(&shape, to);
    }
}

static void again(void) {
    rewind_both();
    workfile_again(&shape);
}

static void cleanup(void) {
    workfile_check(&shape, shape.first);
}

BENCH(fscopy) = {
    .help = "read a block of one file and write it to a second one",
    .usage = "BLOCK_BYTES FILE_KIB [PLACE]",
    .setup = setup,
    .body = body,
    .again = again,
    .cleanup = cleanup,
};
