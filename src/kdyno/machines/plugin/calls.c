// SPDX-License-Identifier: MIT
#include "calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHILDREN = 1 << 19, STACKS = 1 << 10, DEEPEST = 256, INTERRUPTED = 16 };

static struct stack {
  uint64_t place; // its address by STACK_BITS, and one, so that 0 is none
  unsigned depth;
  struct call {
    uint64_t at;
    uint32_t caller;
  } calls[DEEPEST];
} stacks[STACKS];
enum { STACK_BITS = 13 };

const uint64_t *calls_total;

static struct node nodes[NODES_MOST];
static uint32_t used = 1,
                now; // `now`: the node whose instructions are executed
static uint32_t children[CHILDREN];
static uint32_t interrupted[INTERRUPTED];
static unsigned waiting; // of `interrupted`
static uint64_t settled; // of calls_total
static bool calling;

static void settle(void) {
  nodes[now].count += *calls_total - settled;
  settled = *calls_total;
}

static uint32_t child(uint32_t parent, uint32_t function) {
  uint64_t key = (uint64_t)parent << 32 | function;
  size_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 45;
  for (uint32_t it; (it = children[at]); at = (at + 1) % CHILDREN)
    if (nodes[it].parent == parent && nodes[it].function == function)
      return it;
  if (used == NODES_MOST)
    return parent; // deeper than anybody reads
  nodes[used] = (struct node){parent, function, 0, 0};
  return children[at] = used++;
}

static void go_to(uint32_t node) {
  settle();
  now = node;
}

static struct stack *stack_of(uint64_t address) {
  uint64_t place = (address >> STACK_BITS) + 1;
  size_t at = (place * UINT64_C(0x9e3779b97f4a7c15)) >> 54;
  for (size_t tries = 0; tries < 16; tries++, at = (at + 1) % STACKS) {
    if (stacks[at].place == place)
      return &stacks[at];
    if (!stacks[at].place)
      break;
  }
  // A new one, or one in place of another that is then followed no more.
  stacks[at].place = place;
  stacks[at].depth = 0;
  return &stacks[at];
}

void calls_begin(void) {
  for (uint32_t i = 0; i < used; i++)
    nodes[i].before = nodes[i].count;
  memset(stacks, 0, sizeof stacks);
  settled = *calls_total;
  now = waiting = 0;
  calling = false;
}

void calls_end(FILE *out) {
  settle();
  for (uint32_t i = 0; i < used; i++)
    if (nodes[i].count != nodes[i].before)
      fprintf(out, "@%" PRIx32 " %" PRIu64 "\n", i,
              nodes[i].count - nodes[i].before);
}

// The node of an interrupted function that goes on; 0: there is none.
static uint32_t resumed(uint32_t function) {
  for (unsigned i = waiting; i--;)
    if (nodes[interrupted[i]].function == function) {
      waiting = i;
      return interrupted[i];
    }
  return 0;
}

void calls_at(struct function function) {
  if (calling) {
    calling = false;
    go_to(child(now, function.number));
  } else if (nodes[now].function == function.number && now) {
    return;
  } else if (function.enters) {
    if (waiting == INTERRUPTED)
      memmove(interrupted, interrupted + 1, --waiting * sizeof *interrupted);
    interrupted[waiting++] = now;
    go_to(child(0, function.number));
  } else {
    // Jumped to, as a tail call is, or gone on with after an interrupt.
    uint32_t there = resumed(function.number);
    go_to(there ? there : child(nodes[now].parent, function.number));
  }
}

void calls_call(uint64_t stack) {
  struct stack *on = stack_of(stack);
  while (on->depth && on->calls[on->depth - 1].at <= stack)
    on->depth--;
  if (on->depth == DEEPEST) {
    memmove(on->calls, on->calls + 1, (DEEPEST - 1) * sizeof *on->calls);
    on->depth--;
  }
  on->calls[on->depth++] = (struct call){stack, now};
  calling = true;
}

void calls_return(uint64_t stack) {
  struct stack *on = stack_of(stack);
  calling = false;
  while (on->depth && on->calls[on->depth - 1].at < stack)
    on->depth--;
  if (on->depth && on->calls[on->depth - 1].at == stack)
    go_to(on->calls[--on->depth].caller);
  else
    go_to(0); // called before the part began
}

void calls_write_nodes(FILE *out) {
  for (uint32_t i = 1; i < used; i++)
    fprintf(out, "node %" PRIx32 " %" PRIx32 " %" PRIx32 "\n", i,
            nodes[i].parent, nodes[i].function);
}
