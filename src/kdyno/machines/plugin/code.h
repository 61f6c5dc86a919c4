// SPDX-License-Identifier: MIT
// What an x86 instruction is, by its bytes, as far as counting must know it.
#ifndef KDYNO_CODE_H
#define KDYNO_CODE_H

#include <stddef.h>
#include <stdint.h>

enum kind {
  PLAIN,
  BRANCH,
  JUMP,
  CALL,
  INDIRECT_CALL,
  RETURN,
  BEGIN_MARK,
  END_MARK,
  STRING
};

struct code {
  enum kind kind;
  uint64_t next;   // the address behind it
  uint64_t target; // of a BRANCH; 0: elsewhere said
};

struct code code_of(const unsigned char *bytes, size_t size, uint64_t address);

#endif
