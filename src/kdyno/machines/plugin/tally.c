// SPDX-License-Identifier: MIT
// A plugin for QEMU's emulation: instructions of programs and of the kernel
// apart, between the marks that the guest program's harness sets around each
// timed part of a case; and, where it is given sizes, what a model of caches
// and of branch prediction says of them. Loaded by
//   -plugin file=tally.so,out=N,in=M
// It reads "NAME NUMBER..." lines from descriptor M: "kernel ADDRESS", where
// the kernel's half of the addresses begins, and the sizes: "l1i BYTES WAYS",
// the same of l1d, l2 and llc, "line BYTES", "history BRANCHES". At the end of
// each part it writes a line to N: "part" and numbers, see `end`.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code.h"
#include "counters.h"
#include "model.h"

// What one translation of a stretch of code is to the model.
struct block {
  uint64_t start, bytes;
  uint64_t last; // address of its last instruction
  struct code code;
};

// What was executed in all.
enum counter { USER, KERNEL, PIECES, PIECE_BYTES, COUNTERS };
static uint64_t before[COUNTERS];
static struct misses missed;
static uint64_t kernel_from;
static bool inside, modelled;
static const struct block *previous;
static FILE *out;

static void begin(unsigned vcpu, void *data) {
  (void)vcpu, (void)data;
  for (size_t i = 0; i < COUNTERS; i++)
    before[i] = *counters_at(i);
  missed = model_misses();
  previous = NULL;
  inside = true;
}

static uint64_t more(enum counter counter) {
  return *counters_at(counter) - before[counter];
}

static void end(unsigned vcpu, void *data) {
  (void)vcpu, (void)data;
  if (!inside)
    return;
  inside = false;
  struct misses now = model_misses();
  fprintf(out,
          "part %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
          " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
          more(USER), more(KERNEL), more(PIECES), more(PIECE_BYTES),
          now.l1i - missed.l1i, now.l1d - missed.l1d, now.l2 - missed.l2,
          now.llc - missed.llc, now.branches - missed.branches);
}

// What the stretch before ended with is known when the next one begins.
static void went(const struct block *from, uint64_t to) {
  const struct code *code = &from->code;
  if (code->kind == BRANCH && (to == code->target || to == code->next))
    model_branch(from->last, to == code->target);
  else if (code->kind == JUMP || code->kind == INDIRECT_CALL)
    model_indirect(from->last, to);
  else if (code->kind == RETURN)
    model_return(to);
  if (code->kind == CALL || code->kind == INDIRECT_CALL)
    model_call(code->next);
}

static void entered(unsigned vcpu, void *data) {
  (void)vcpu;
  const struct block *block = data;
  if (!inside)
    return;
  if (previous)
    went(previous, block->start);
  previous = block;
  model_fetch(block->start, block->bytes);
}

static void accessed(unsigned vcpu, memory_access access, uint64_t address,
                     void *data) {
  (void)vcpu, (void)data;
  if (!inside)
    return;
  // By its place in memory: programs have the same addresses for different
  // memory.
  const struct qemu_plugin_hwaddr *place =
      qemu_plugin_get_hwaddr(access, address);
  if (place && !qemu_plugin_hwaddr_is_io(place))
    model_data(qemu_plugin_hwaddr_phys_addr(place),
               UINT64_C(1) << qemu_plugin_mem_size_shift(access));
}

static uint64_t piece_bytes(const unsigned char *bytes, size_t size) {
  bool wide = false, half = false;
  for (size_t i = 0; i + 1 < size; i++) {
    half |= bytes[i] == 0x66;
    wide |= (bytes[i] & 0xf8) == 0x48;
  }
  return !(bytes[size - 1] & 1) ? 1 : wide ? 8 : half ? 2 : 4;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
  (void)id;
  size_t count = qemu_plugin_tb_n_insns(tb);
  struct block *block = modelled && count ? calloc(1, sizeof *block) : NULL;
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
    uint64_t address = qemu_plugin_insn_vaddr(insn);
    unsigned char bytes[INSN_BYTES_MOST];
    size_t size = insn_bytes(insn, bytes);
    struct code code = code_of(bytes, size, address);
    if (code.kind == BEGIN_MARK || code.kind == END_MARK)
      qemu_plugin_register_vcpu_insn_exec_cb(
          insn, code.kind == BEGIN_MARK ? begin : end, NO_REGISTERS, NULL);
    counters_add(insn, address >= kernel_from ? KERNEL : USER, 1);
    if (code.kind == STRING) {
      counters_add(insn, PIECES, 1);
      counters_add(insn, PIECE_BYTES, piece_bytes(bytes, size));
    }
    if (!block)
      continue;
    qemu_plugin_register_vcpu_mem_cb(insn, accessed, NO_REGISTERS,
                                     READS_AND_WRITES, NULL);
    block->last = address;
    block->code = code;
  }
  if (!block)
    return;
  block->start = qemu_plugin_tb_vaddr(tb);
  block->bytes = block->code.next - block->start;
  qemu_plugin_register_vcpu_tb_exec_cb(tb, entered, NO_REGISTERS, block);
}

static void at_exit(plugin_id id, void *data) {
  (void)id, (void)data;
  fputs("end\n", out);
  fclose(out);
}

static bool read_sizes(FILE *in) {
  struct model_sizes sizes = {.line = 64, .history = 12};
  char name[16];
  uint64_t number;
  unsigned ways;
  if (!in)
    return false;
  while (fscanf(in, "%15s %" SCNu64, name, &number) == 2) {
    struct cache_size *of = !strcmp(name, "l1i")   ? &sizes.l1i
                            : !strcmp(name, "l1d") ? &sizes.l1d
                            : !strcmp(name, "l2")  ? &sizes.l2
                            : !strcmp(name, "llc") ? &sizes.llc
                                                   : NULL;
    if (of) {
      if (fscanf(in, "%u", &ways) != 1)
        return false;
      *of = (struct cache_size){number, ways};
      modelled = true;
    } else if (!strcmp(name, "kernel")) {
      kernel_from = number;
    } else if (!strcmp(name, "line")) {
      sizes.line = (unsigned)number;
    } else if (!strcmp(name, "history")) {
      sizes.history = (unsigned)number;
    } else {
      return false;
    }
  }
  const char *wrong = modelled ? model_make(sizes) : NULL;
  if (wrong)
    fprintf(stderr, "kdyno: %s\n", wrong);
  return feof(in) && !fclose(in) && !wrong;
}

EXPORTED int qemu_plugin_install(plugin_id id, const struct info *info,
                                 int argc, char **argv) {
  if (!info->whole_system || argc != 2 || strncmp(argv[0], "out=", 4) ||
      strncmp(argv[1], "in=", 3) || !(out = fdopen(atoi(argv[0] + 4), "w")) ||
      !read_sizes(fdopen(atoi(argv[1] + 3), "r")))
    return 1;
  for (size_t i = 0; i < COUNTERS; i++)
    counters_new();
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, at_exit, NULL);
  return 0;
}
