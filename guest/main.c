// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table.h"
#include "verbs.h"

static const char help[] =
    "kdyno-guest: benchmarks for kernels, and the first process of a kernel under test\n"
    "\n"
    "  kdyno-guest list [--json]            the benchmarks: name and help\n"
    "  kdyno-guest bench NAME [--seconds S | --operations N] [--timeout S] [ARGS]\n"
    "                                       run one here; its record goes to stdout\n"
    "  kdyno-guest job FILE [--fd N] [--orders N]\n"
    "                                       run a job file here; records go to stdout or fd N,\n"
    "                                       orders of a job with turns come from fd N\n"
    "  kdyno-guest init                     guest mode; only as process 1 of a booted kernel\n"
    "  kdyno-guest supervise --report-fd N [--fsize BYTES] [--addresses fixed]\n"
    "                        [--alone yes] [--stdin FD] [--stdout FD]\n"
    "                        [--output NAME:FD]... -- COMMAND\n"
    "                                       run a command, leave nothing of it behind, and\n"
    "                                       report its status and CPU time\n"
    "  kdyno-guest ticks                    how fast the time-stamp counter goes here, in kHz\n"
    "\n"
    "  kdyno-guest bench pipe --seconds 0.5\n"
    "  kdyno-guest bench run -- sort -n numbers.txt\n";

const struct bench *bench_find(const char *name) {
    for (const struct bench_entry *entry = bench_table; entry->name; entry++)
        if (!strcmp(entry->name, name))
            return entry->bench;
    return NULL;
}

static int verb_help(int argc, char **argv) {
    (void)argc;
    (void)argv;
    fputs(help, stdout);
    return 0;
}

static int verb_helper(int argc, char **argv) {
    const struct bench *bench = argc ? bench_find(argv[0]) : NULL;
    if (bench && bench->helper)
        return bench->helper(argc - 1, argv + 1);
    fprintf(stderr, "kdyno-guest: only benchmarks call their helpers\n");
    return EXIT_USAGE;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {
        {"helper", verb_helper}, {"bench", verb_bench}, {"init", verb_init},
        {"job", verb_job},       {"list", verb_list},   {"supervise", verb_supervise},
        {"ticks", verb_ticks},   {"--help", verb_help}, {"-h", verb_help},
        {"help", verb_help},
    };
    // A verb first: the first process of a sandbox is a supervisor, not a guest's init.
    if (argc > 1)
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (!strcmp(argv[1], verbs[i].name))
                return verbs[i].run(argc - 2, argv + 2);
    if (getpid() == 1)
        return verb_init(argc - 1, argv + 1);
    if (argc > 1)
        fprintf(stderr, "kdyno-guest: unknown verb %s\n", argv[1]);
    fputs(help, stderr);
    return EXIT_USAGE;
}
