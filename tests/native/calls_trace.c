// SPDX-License-Identifier: MIT
// Replays calls and returns, and prints the tree: "f FUNCTION ENTERS N" executes N instructions of a
// function, "c STACK" calls, "r STACK" returns.
#include <inttypes.h>
#include <stdio.h>

#include "calls.h"

int main(void) {
    char event;
    uint64_t stack, more, total = 0;
    unsigned function, enters;
    calls_total = &total;
    calls_begin();
    while (scanf(" %c", &event) == 1) {
        if (event == 'f' && scanf("%u %u %" SCNu64, &function, &enters, &more) == 3) {
            calls_at((struct function){function, enters});
            total += more;
        } else if (event == 'c' && scanf("%" SCNi64, (int64_t *)&stack) == 1) {
            calls_call(stack);
        } else if (event == 'r' && scanf("%" SCNi64, (int64_t *)&stack) == 1) {
            calls_return(stack);
        } else {
            return 2;
        }
    }
    calls_end(stdout);
    calls_write_nodes(stdout);
    return 0;
}
