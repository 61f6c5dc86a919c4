// SPDX-License-Identifier: MIT
// 8 tasks asked for; of each half second none is runnable for 100 ms. For each number of seconds on
// the command line: what is noted.
#include <stdlib.h>

#include "load.c"

void bench_note(const char *key, const void *bytes, size_t length) {
    if (!strcmp(key, "mean_runnable") || !strcmp(key, "low_parallelism_percent"))
        printf("%.*s ", (int)length, (const char *)bytes);
}

int main(int count, char **seconds) {
    static struct load load;
    for (int i = 1; i < count; i++) {
        load = (struct load){.tasks = 8, .every_ns = first_every_ns};
        uint64_t end_ns = strtoull(seconds[i], NULL, 10) * 1000000000;
        for (uint64_t now = 0; now < end_ns; now += first_every_ns)
            if (now >= load.next_ns)
                keep(&load, now, now / first_every_ns % 5 ? 8 : 0, 0);
        load_note(&load);
        puts("");
    }
    return 0;
}
