// SPDX-License-Identifier: MIT
// Where the pages of cases lie.
#ifndef KDYNO_SCATTER_H
#define KDYNO_SCATTER_H

#include <stddef.h>
#include <stdint.h>

// Frees pages in an order that `seed` draws, and keeps as many between them, so that the next
// ones that the kernel gives away lie anywhere. How many; 0, with a word on stderr, if it cannot.
size_t scatter(uint64_t seed);

#endif
