// SPDX-License-Identifier: MIT
#include "model.h"

#include <stdlib.h>
#include <string.h>

enum { HISTORY_MOST = 20, RETURNS = 32, TARGETS = 512 };
static const uint64_t code =
    UINT64_C(1) << 62; // code and data at one address are two lines

// Each set has its lines in the order of their last use; 0 is none.
struct cache {
  uint64_t *lines;
  uint64_t sets;
  unsigned ways;
};

static struct cache l1i, l1d, l2, llc;
static unsigned line_bits;
static struct misses misses;

static unsigned char
    *counters; // of two bits: 0 and 1 say not taken, 2 and 3 taken
static uint64_t counter_mask, history, history_mask;
static struct {
  uint64_t address, target;
} targets[TARGETS];
static uint64_t returns[RETURNS];
static unsigned returns_at;

static bool power_of_two(uint64_t it) { return it && !(it & (it - 1)); }

static const char *cache_make(struct cache *it, struct cache_size size,
                              unsigned line) {
  if (!size.ways || size.bytes % ((uint64_t)size.ways * line) ||
      !power_of_two(size.bytes / size.ways / line))
    return "a cache has a power of two of sets, each of so many ways of a line";
  it->ways = size.ways;
  it->sets = size.bytes / size.ways / line;
  free(it->lines);
  it->lines = calloc(it->sets * it->ways, sizeof *it->lines);
  return it->lines ? NULL : "no memory for a cache";
}

const char *model_make(struct model_sizes sizes) {
  if (!power_of_two(sizes.line) || sizes.line < 16 ||
      sizes.history > HISTORY_MOST)
    return "a line is a power of two of bytes, 16 or more, and a history up to "
           "20 branches";
  line_bits = (unsigned)__builtin_ctz(sizes.line);
  const char *wrong = cache_make(&l1i, sizes.l1i, sizes.line);
  wrong = wrong ? wrong : cache_make(&l1d, sizes.l1d, sizes.line);
  wrong = wrong ? wrong : cache_make(&l2, sizes.l2, sizes.line);
  wrong = wrong ? wrong : cache_make(&llc, sizes.llc, sizes.line);
  if (wrong)
    return wrong;
  history_mask = (UINT64_C(1) << sizes.history) - 1;
  counter_mask = (UINT64_C(4) << sizes.history) - 1;
  free(counters);
  counters = malloc(counter_mask + 1);
  if (!counters)
    return "no memory for predictions";
  memset(counters, 1, counter_mask + 1);
  memset(targets, 0, sizeof targets);
  memset(returns, 0, sizeof returns);
  memset(&misses, 0, sizeof misses);
  history = returns_at = 0;
  return NULL;
}

struct misses model_misses(void) { return misses; }

// Whether it was there; it is now, as the one used last.
static bool touch(struct cache *it, uint64_t line) {
  uint64_t *set = it->lines + (line & (it->sets - 1)) * it->ways;
  uint64_t kept = line + 1;
  for (unsigned way = 0; way < it->ways; way++) {
    uint64_t other = set[way];
    set[way] = kept;
    if (other == line + 1)
      return true;
    kept = other; // moves down by one
  }
  return false;
}

static void beyond(uint64_t line) {
  if (touch(&l2, line))
    return;
  misses.l2++;
  if (!touch(&llc, line))
    misses.llc++;
}

static void reach(struct cache *first, uint64_t *missed, uint64_t address,
                  uint64_t bytes, uint64_t space) {
  uint64_t last = (address + (bytes ? bytes - 1 : 0)) >> line_bits;
  for (uint64_t line = address >> line_bits; line <= last; line++)
    if (!touch(first, line | space >> line_bits)) {
      ++*missed;
      beyond(line | space >> line_bits);
    }
}

void model_fetch(uint64_t address, uint64_t bytes) {
  // Of an address the upper bits are all the same: none of them is missed.
  reach(&l1i, &misses.l1i, address & (code - 1), bytes, code);
}

void model_data(uint64_t address, uint64_t bytes) {
  reach(&l1d, &misses.l1d, address & (code - 1), bytes, 0);
}

void model_branch(uint64_t address, bool taken) {
  unsigned char *counter = &counters[(address ^ history << 2) & counter_mask];
  misses.branches += (*counter >= 2) != taken;
  if (taken && *counter < 3)
    ++*counter;
  if (!taken && *counter > 0)
    --*counter;
  history = (history << 1 | taken) & history_mask;
}

void model_indirect(uint64_t address, uint64_t target) {
  size_t at = (address ^ address >> 9 ^ history) % TARGETS;
  misses.branches +=
      targets[at].address != address || targets[at].target != target;
  targets[at].address = address;
  targets[at].target = target;
}

void model_call(uint64_t back) { returns[returns_at++ % RETURNS] = back; }

void model_return(uint64_t target) {
  uint64_t *last = &returns[--returns_at % RETURNS];
  misses.branches += *last != target;
  *last = 0;
}
