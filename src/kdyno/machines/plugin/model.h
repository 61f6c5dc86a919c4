// SPDX-License-Identifier: MIT
// A model of caches and of branch prediction, of no processor in particular:
// docs/counting.md has its rules. It knows nothing of QEMU, so that it can be
// tested on traces made by hand.
#ifndef KDYNO_MODEL_H
#define KDYNO_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct cache_size {
  uint64_t bytes; // of all ways together; a power of two times `ways`
  unsigned ways;
};

struct model_sizes {
  struct cache_size l1i, l1d, l2, llc;
  unsigned line;    // bytes, a power of two
  unsigned history; // branches that a prediction looks back on; its table has 4
                    // << history entries
};

// What missed, since the model was made.
struct misses {
  uint64_t l1i, l1d, l2,
      llc; // those of l2 missed in a cache of the first level, and so on
  uint64_t branches; // mispredicted: conditional and indirect ones, and returns
};

// NULL where it is well, else what is wrong with the sizes.
const char *model_make(struct model_sizes sizes);
struct misses model_misses(void);

void model_fetch(uint64_t address, uint64_t bytes);
void model_data(uint64_t address,
                uint64_t bytes); // read or written: either brings the line in
void model_branch(uint64_t address, bool taken);
void model_indirect(uint64_t address, uint64_t target);
void model_call(uint64_t back); // the address that it returns to
void model_return(uint64_t target);

#endif
