// SPDX-License-Identifier: MIT
#include "code.h"

#include <stdbool.h>
#include <string.h>

// nopl 0x6b640001(%rax) begins a timed part, nopl 0x6b640000(%rax) ends it:
// guest/harness.c.
static bool is_mark(const unsigned char *bytes, size_t size) {
  static const unsigned char nop[] = {0x0f, 0x1f, 0x80, 0, 0x00, 0x64, 0x6b};
  return size == sizeof nop && !memcmp(bytes, nop, 3) &&
         !memcmp(bytes + 4, nop + 4, 3) && bytes[3] <= 1;
}

static uint64_t relative(const unsigned char *last, size_t size,
                         uint64_t next) {
  int32_t far = 0;
  if (size == 1)
    return next + (uint64_t)(int64_t)(int8_t)*last;
  memcpy(&far, last, sizeof far);
  return next + (uint64_t)(int64_t)far;
}

struct code code_of(const unsigned char *bytes, size_t size, uint64_t address) {
  static const unsigned char prefixes[] = {0x66, 0x67, 0x2e, 0x36,
                                           0x3e, 0x26, 0x64, 0x65};
  struct code code = {PLAIN, address + size, 0};
  bool repeated = false;
  size_t at = 0;
  if (is_mark(bytes, size)) {
    code.kind = bytes[3] ? BEGIN_MARK : END_MARK;
    return code;
  }
  // REX begins an instruction of one byte where there is no REX, in 32-bit
  // code.
  for (; at + 1 < size; at++) {
    if (bytes[at] == 0xf2 || bytes[at] == 0xf3)
      repeated = true;
    else if ((bytes[at] & 0xf0) != 0x40 &&
             !memchr(prefixes, bytes[at], sizeof prefixes))
      break;
  }
  unsigned char first = bytes[at], second = at + 1 < size ? bytes[at + 1] : 0;
  unsigned char way = second >> 3 & 7; // of the group 0xff
  if (first >= 0x70 && first <= 0x7f) {
    code.kind = BRANCH;
    code.target = relative(bytes + size - 1, 1, code.next);
  } else if (first == 0x0f && second >= 0x80 && second <= 0x8f) {
    code.kind = BRANCH;
    code.target = relative(bytes + size - 4, 4, code.next);
  } else if (first == 0xe8) {
    code.kind = CALL;
  } else if (first == 0xc2 || first == 0xc3) {
    code.kind = RETURN;
  } else if (first == 0xff && (way == 2 || way == 4)) {
    code.kind = way == 2 ? INDIRECT_CALL : JUMP;
  } else if (repeated && (first == 0xa4 || first == 0xa5 || first == 0xaa ||
                          first == 0xab)) {
    code.kind = STRING;
  }
  return code;
}
