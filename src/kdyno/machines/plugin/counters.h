// SPDX-License-Identifier: MIT
// Counts that translated code adds to without a call, and an instruction's
// bytes: what versions of QEMU's interface have in different ways.
#ifndef KDYNO_COUNTERS_H
#define KDYNO_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interface.h"

enum {
  COUNTERS_MOST = 1 << 19,
  INSN_BYTES_MOST = 15, // of an x86 instruction
};

size_t counters_new(void); // 0, 1, 2 ...; ends QEMU where there is no room
// `more` whenever this instruction is executed. Callbacks of an instruction go
// before what it adds: register them before.
void counters_add(struct qemu_plugin_insn *insn, size_t counter, uint64_t more);
// Of the first CPU, once it has begun; stays where it is with up to 16 of them.
uint64_t *counters_at(size_t counter);

size_t insn_bytes(const struct qemu_plugin_insn *insn,
                  unsigned char bytes[INSN_BYTES_MOST]);

#endif
