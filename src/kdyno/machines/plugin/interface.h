// SPDX-License-Identifier: MIT
// QEMU's plugin interface as far as it is used here, of the version INTERFACE:
// 1 (QEMU 4.2 to 8.2), 2 (9.0), or 3 (9.1 and later, which take it beside their
// own). No binary package has the header; docs/devel/tcg-plugins of QEMU
// describes it. The names and arguments here were held against the header in the
// source of 10.0, and 7.2 and 10.0 were run with them.
#ifndef KDYNO_INTERFACE_H
#define KDYNO_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef uint32_t memory_access;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct info {
  const char *target;
  struct {
    int least, current;
  } version;
  bool whole_system;
};
enum { NO_REGISTERS = 0, ADD = 0 };
enum {
  READS_AND_WRITES = 3
}; // QEMU 7.2 takes one for the other where only one is asked for
typedef void on_translation(plugin_id id, struct qemu_plugin_tb *block);
typedef void on_execution(unsigned vcpu, void *data);
typedef void on_access(unsigned vcpu, memory_access access, uint64_t address,
                       void *data);
typedef void at_end(plugin_id id, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                                  on_translation *call);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
#if INTERFACE < 3
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
#else
extern size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn,
                                    void *bytes, size_t room);
#endif
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                                 on_execution *call,
                                                 int registers, void *data);
#if INTERFACE < 2
extern void qemu_plugin_register_vcpu_insn_exec_inline(
    struct qemu_plugin_insn *insn, int operation, void *counter, uint64_t more);
#else
// One element for each CPU.
struct qemu_plugin_scoreboard;
struct scoreboard_entry {
  struct qemu_plugin_scoreboard *board;
  size_t offset; // of a uint64_t in an element
};
extern struct qemu_plugin_scoreboard *
qemu_plugin_scoreboard_new(size_t element_bytes);
extern void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *board,
                                         unsigned vcpu);
extern void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
    struct qemu_plugin_insn *insn, int operation, struct scoreboard_entry entry,
    uint64_t more);
#endif
extern void
qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                       on_execution *call, int registers,
                                       void *data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
                                             on_access *call, int registers,
                                             int which, void *data);
extern bool qemu_plugin_mem_is_store(memory_access access);
extern void qemu_plugin_register_atexit_cb(plugin_id id, at_end *call,
                                           void *data);

#endif
