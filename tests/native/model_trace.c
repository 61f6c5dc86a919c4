// SPDX-License-Identifier: MIT
// Replays a trace in the model of caches and branches: one event a line, see `main`. "?" prints
// what missed so far.
#include <inttypes.h>
#include <stdio.h>

#include "model.h"

int main(void) {
    struct model_sizes s;
    char event;
    uint64_t a, b;
    if (scanf("%" SCNu64 " %u %" SCNu64 " %u %" SCNu64 " %u %" SCNu64 " %u %u %u", &s.l1i.bytes,
              &s.l1i.ways, &s.l1d.bytes, &s.l1d.ways, &s.l2.bytes, &s.l2.ways, &s.llc.bytes,
              &s.llc.ways, &s.line, &s.history) != 10)
        return 2;
    const char *wrong = model_make(s);
    if (wrong)
        return puts(wrong), 1;
    while (scanf(" %c", &event) == 1) {
        if (event == '?') {
            struct misses m = model_misses();
            printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", m.l1i, m.l1d,
                   m.l2, m.llc, m.branches);
            continue;
        }
        if (scanf("%" SCNi64 " %" SCNi64, (int64_t *)&a, (int64_t *)&b) != 2)
            return 2;
        if (event == 'i')
            model_fetch(a, b);
        else if (event == 'd')
            model_data(a, b);
        else if (event == 'b')
            model_branch(a, b);
        else if (event == 'j')
            model_indirect(a, b);
        else if (event == 'c')
            model_call(a);
        else if (event == 'r')
            model_return(a);
        else
            return 2;
    }
    return 0;
}
