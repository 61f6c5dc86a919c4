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

enum code code_of(const unsigned char *bytes, size_t size) {
  static const unsigned char prefixes[] = {0x66, 0x67, 0x2e, 0x36, 0x3e,
                                           0x26, 0x64, 0x65, 0xf2, 0xf3};
  if (is_mark(bytes, size))
    return bytes[3] ? BEGIN_MARK : END_MARK;
  // REX begins an instruction of one byte where there is no REX, in 32-bit
  // code.
  size_t at = 0;
  while (at + 1 < size && ((bytes[at] & 0xf0) == 0x40 ||
                           memchr(prefixes, bytes[at], sizeof prefixes)))
    at++;
  unsigned char first = bytes[at], second = at + 1 < size ? bytes[at + 1] : 0;
  if (first == 0xe8 || (first == 0xff && (second >> 3 & 7) == 2))
    return CALL;
  return first == 0xc2 || first == 0xc3 ? RETURN : PLAIN;
}
