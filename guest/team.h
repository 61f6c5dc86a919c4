// SPDX-License-Identifier: MIT
// Threads that do a benchmark's operations together.
#ifndef KDYNO_TEAM_H
#define KDYNO_TEAM_H

#include <stdint.h>

enum { TEAM = 4 };

// Starts them once; `work` is called in each with its number and its share of the operations.
void team_start(void (*work)(int member, uint64_t operations));
// Lets them do that many operations together and waits until all are done.
void team_work(uint64_t operations);

#endif
