// SPDX-License-Identifier: MIT
// What an x86 instruction is, by its bytes, as far as counting must know it.
#ifndef KDYNO_CODE_H
#define KDYNO_CODE_H

#include <stddef.h>

enum code { PLAIN, CALL, RETURN, BEGIN_MARK, END_MARK };

enum code code_of(const unsigned char *bytes, size_t size);

#endif
