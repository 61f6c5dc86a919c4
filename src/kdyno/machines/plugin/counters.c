// SPDX-License-Identifier: MIT
#include "counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

EXPORTED int qemu_plugin_version = INTERFACE;

enum { CHUNK = 1 << 12, CHUNKS = COUNTERS_MOST / CHUNK };

// Few at a time: a scoreboard has room for 16 CPUs.
#if INTERFACE < 2
static uint64_t *chunks[CHUNKS];

static bool more_room(size_t chunk) {
  return (chunks[chunk] = calloc(CHUNK, sizeof **chunks));
}

void counters_add(struct qemu_plugin_insn *insn, size_t counter,
                  uint64_t more) {
  qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, counters_at(counter),
                                             more);
}

uint64_t *counters_at(size_t counter) {
  return chunks[counter / CHUNK] + counter % CHUNK;
}
#else
static struct qemu_plugin_scoreboard *chunks[CHUNKS];

static bool more_room(size_t chunk) {
  return (chunks[chunk] = qemu_plugin_scoreboard_new(CHUNK * sizeof(uint64_t)));
}

void counters_add(struct qemu_plugin_insn *insn, size_t counter,
                  uint64_t more) {
  struct scoreboard_entry entry = {chunks[counter / CHUNK],
                                   counter % CHUNK * sizeof(uint64_t)};
  qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, entry, more);
}

uint64_t *counters_at(size_t counter) {
  uint64_t *chunk = qemu_plugin_scoreboard_find(chunks[counter / CHUNK], 0);
  return chunk + counter % CHUNK;
}
#endif

size_t counters_new(void) {
  static size_t used;
  if (used == COUNTERS_MOST ||
      (used % CHUNK == 0 && !more_room(used / CHUNK))) {
    fprintf(stderr, "kdyno: more code than the plugin has room for\n");
    exit(1);
  }
  return used++;
}

size_t insn_bytes(const struct qemu_plugin_insn *insn,
                  unsigned char bytes[INSN_BYTES_MOST]) {
  size_t size = qemu_plugin_insn_size(insn);
  if (size > INSN_BYTES_MOST)
    size = INSN_BYTES_MOST;
#if INTERFACE < 3
  memcpy(bytes, qemu_plugin_insn_data(insn), size);
  return size;
#else
  return qemu_plugin_insn_data(insn, bytes, size);
#endif
}
