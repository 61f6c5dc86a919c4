// SPDX-License-Identifier: MIT
// A plugin for QEMU's emulation: how often the instruction at each address was
// executed between the marks that the guest program's harness sets around each
// timed part of a case, and by which calls it came there. Loaded by
//   -plugin file=counts.so,out=N,in=M
// It reads "ADDRESS NUMBER ENTERS" lines from descriptor M, by address: where
// functions begin. At the end of each part it writes to N: "part N", "ADDRESS
// COUNT" lines for all addresses that were executed in it, and "@NODE COUNT"
// lines; at its own end what the nodes are.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "code.h"
#include "counters.h"

enum { SLOTS = 2 * COUNTERS_MOST, TOTAL = 0 };

// Open addressing; 0: none, else the counter of an address.
static uint32_t slots[SLOTS];
static struct count {
  uint64_t address, before;
} counts[COUNTERS_MOST];
static size_t used = TOTAL + 1;
static bool inside;
static unsigned parts;
static FILE *out;

static struct start {
  uint64_t address;
  struct function function;
} *starts;
static size_t start_count;

static size_t counter_of(uint64_t address) {
  size_t at = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 44;
  while (slots[at] && counts[slots[at]].address != address)
    at = (at + 1) % SLOTS;
  if (!slots[at]) {
    used = (slots[at] = (uint32_t)counters_new()) + 1;
    counts[slots[at]].address = address;
  }
  return slots[at];
}

static struct function *function_of(uint64_t address) {
  static struct function none;
  size_t low = 0, high = start_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (starts[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low ? &starts[low - 1].function : &none;
}

static void begin(unsigned vcpu, void *data) {
  (void)vcpu;
  for (size_t i = TOTAL + 1; i < used; i++)
    counts[i].before = *counters_at(i);
  inside = true;
  calls_total = counters_at(TOTAL);
  calls_begin();
  calls_at(*(struct function *)data);
}

static void end(unsigned vcpu, void *data) {
  (void)vcpu, (void)data;
  if (!inside)
    return;
  inside = false;
  fprintf(out, "part %u\n", parts++);
  for (size_t i = TOTAL + 1; i < used; i++) {
    uint64_t more = *counters_at(i) - counts[i].before;
    if (more)
      fprintf(out, "%" PRIx64 " %" PRIu64 "\n", counts[i].address, more);
  }
  calls_end(out);
}

static void entered(unsigned vcpu, void *data) {
  (void)vcpu;
  if (inside)
    calls_at(*(struct function *)data);
}

static void called(unsigned vcpu, memory_access access, uint64_t address,
                   void *data) {
  (void)vcpu, (void)data;
  if (inside && qemu_plugin_mem_is_store(access))
    calls_call(address);
}

static void returned(unsigned vcpu, memory_access access, uint64_t address,
                     void *data) {
  (void)vcpu, (void)data;
  if (inside && !qemu_plugin_mem_is_store(access))
    calls_return(address);
}

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
  (void)id;
  size_t count = qemu_plugin_tb_n_insns(block);
  struct function *function = function_of(qemu_plugin_tb_vaddr(block));
  qemu_plugin_register_vcpu_tb_exec_cb(block, entered, NO_REGISTERS, function);
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    unsigned char bytes[INSN_BYTES_MOST];
    switch (code_of(bytes, insn_bytes(insn, bytes))) {
    case CALL:
      qemu_plugin_register_vcpu_mem_cb(insn, called, NO_REGISTERS,
                                       READS_AND_WRITES, NULL);
      break;
    case RETURN:
      qemu_plugin_register_vcpu_mem_cb(insn, returned, NO_REGISTERS,
                                       READS_AND_WRITES, NULL);
      break;
    case BEGIN_MARK:
      qemu_plugin_register_vcpu_insn_exec_cb(insn, begin, NO_REGISTERS,
                                             function);
      break;
    case END_MARK:
      qemu_plugin_register_vcpu_insn_exec_cb(insn, end, NO_REGISTERS, NULL);
      break;
    default:
      break;
    }
    counters_add(insn, counter_of(address), 1);
    counters_add(insn, TOTAL, 1);
  }
}

static void at_exit(plugin_id id, void *data) {
  (void)id, (void)data;
  calls_write_nodes(out);
  fputs("end\n", out);
  fclose(out);
}

static bool read_functions(FILE *in) {
  struct start next;
  unsigned enters;
  size_t room = 0;
  while (in && fscanf(in, "%" SCNx64 " %" SCNx32 " %u", &next.address,
                      &next.function.number, &enters) == 3) {
    if (start_count == room) {
      room = room ? 2 * room : 4096;
      struct start *more = realloc(starts, room * sizeof *starts);
      if (!more)
        return false;
      starts = more;
    }
    next.function.enters = enters;
    starts[start_count++] = next;
  }
  return in && feof(in) && !fclose(in);
}

EXPORTED int qemu_plugin_install(plugin_id id, const struct info *info,
                                 int argc, char **argv) {
  if (!info->whole_system || argc != 2 || strncmp(argv[0], "out=", 4) ||
      strncmp(argv[1], "in=", 3) || !(out = fdopen(atoi(argv[0] + 4), "w")) ||
      !read_functions(fdopen(atoi(argv[1] + 3), "r")))
    return 1;
  counters_new(); // TOTAL
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
