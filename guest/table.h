// SPDX-License-Identifier: MIT
// The table of benchmarks; its definition is generated from the files in bench/.
#ifndef KDYNO_TABLE_H
#define KDYNO_TABLE_H

#include "bench.h"

struct bench_entry {
    const char *name;
    const struct bench *bench;
};

extern const struct bench_entry bench_table[]; // ends with a NULL name

// NULL when there is no such benchmark.
const struct bench *bench_find(const char *name);

#endif
