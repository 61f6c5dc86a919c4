// SPDX-License-Identifier: MIT
// A plugin for QEMU's emulation: instructions of programs and of the kernel
// apart, between the marks that the guest program's harness sets around each
// timed part of a case. Loaded by
//   -plugin file=tally.so,out=N,in=M
// It reads "kernel ADDRESS" from descriptor M: where the kernel's half of the
// addresses begins. At the end of each part it writes "part USER KERNEL" to N.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "counters.h"

// What was executed in all.
enum counter { USER, KERNEL, COUNTERS };
static uint64_t before[COUNTERS];
static uint64_t kernel_from;
static bool inside;
static FILE *out;

static void begin(unsigned vcpu, void *data) {
  (void)vcpu, (void)data;
  for (size_t i = 0; i < COUNTERS; i++)
    before[i] = *counters_at(i);
  inside = true;
}

static void end(unsigned vcpu, void *data) {
  (void)vcpu, (void)data;
  if (inside)
    fprintf(out, "part %" PRIu64 " %" PRIu64 "\n",
            *counters_at(USER) - before[USER],
            *counters_at(KERNEL) - before[KERNEL]);
  inside = false;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
  (void)id;
  size_t count = qemu_plugin_tb_n_insns(tb);
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
    unsigned char bytes[INSN_BYTES_MOST];
    enum code code = code_of(bytes, insn_bytes(insn, bytes));
    if (code == BEGIN_MARK || code == END_MARK)
      qemu_plugin_register_vcpu_insn_exec_cb(
          insn, code == BEGIN_MARK ? begin : end, NO_REGISTERS, NULL);
    bool kernel = qemu_plugin_insn_vaddr(insn) >= kernel_from;
    counters_add(insn, kernel ? KERNEL : USER, 1);
  }
}

static void at_exit(plugin_id id, void *data) {
  (void)id, (void)data;
  fputs("end\n", out);
  fclose(out);
}

static bool read_begin(FILE *in) {
  return in && fscanf(in, "kernel %" SCNu64 " ", &kernel_from) == 1 &&
         feof(in) && !fclose(in);
}

EXPORTED int qemu_plugin_install(plugin_id id, const struct info *info,
                                 int argc, char **argv) {
  if (!info->whole_system || argc != 2 || strncmp(argv[0], "out=", 4) ||
      strncmp(argv[1], "in=", 3) || !(out = fdopen(atoi(argv[0] + 4), "w")) ||
      !read_begin(fdopen(atoi(argv[1] + 3), "r")))
    return 1;
  for (size_t i = 0; i < COUNTERS; i++)
    counters_new();
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
