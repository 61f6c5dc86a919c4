// SPDX-License-Identifier: MIT
// Who called whom: a tree of functions, told by calls, returns and where code
// goes on.
//
// Several stacks are followed at once, one for each 8 KiB of stack: a task that
// is switched to goes on where it was left. A call remembers where on the stack
// its return address lies, and the return that reads it there ends it; what was
// left in between without a return is forgotten.
#ifndef KDYNO_CALLS_H
#define KDYNO_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { NODES_MOST = 1 << 18 };

struct function {
  uint32_t number; // 0: none that is known
  bool enters;     // begins a stack of its own: a system call, an interrupt
};

struct node {
  uint32_t parent, function; // the root is node 0, and its own parent
  uint64_t count, before;
};

// Where all instructions that were executed are counted; what is counted
// meanwhile is of the function we are in.
extern const uint64_t *calls_total;

void calls_begin(void);                  // a timed part
void calls_end(FILE *out);               // "@NODE COUNT" lines of the part
void calls_at(struct function function); // code of this function goes on
void calls_call(uint64_t stack);         // a return address was written there
void calls_return(uint64_t stack);       // and read there
void calls_write_nodes(FILE *out);       // "node NODE PARENT FUNCTION" lines

#endif
