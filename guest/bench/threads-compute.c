// SPDX-License-Identifier: MIT
// Integer work with some memory: every thread walks through a table of its own, 16 KiB, and one
// operation changes 256 words of it.
#include "bench.h"
#include "team.h"

enum { WORDS = 4096, CHANGES = 256 };

static uint32_t tables[TEAM][WORDS];

static void work(int member, uint64_t operations) {
    uint32_t *table = tables[member];
    uint32_t state = table[0] + 1;
    for (uint64_t i = 0; i < operations; i++)
        for (int j = 0; j < CHANGES; j++) {
            state = state * 1664525 + 1013904223;
            uint32_t *word = &table[state >> 20];
            *word += state ^ (*word >> 3);
            state += *word;
        }
    table[0] = state;
}

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    team_start(work);
}

BENCH(threads_compute) = {
    .help = "4 threads change 256 words, each in a table of its own",
    .setup = setup,
    .body = team_work,
};
