// SPDX-License-Identifier: MIT
// QEMU's plugin interface, version 1 (QEMU 4.2 to 8.x), as far as it is used
// here. No binary package has the header; docs/devel/tcg-plugins of QEMU
// describes it.
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
struct qemu_plugin_hwaddr;
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
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                                 on_execution *call,
                                                 int registers, void *data);
extern void qemu_plugin_register_vcpu_insn_exec_inline(
    struct qemu_plugin_insn *insn, int operation, void *counter, uint64_t more);
extern void
qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                       on_execution *call, int registers,
                                       void *data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
                                             on_access *call, int registers,
                                             int which, void *data);
extern unsigned qemu_plugin_mem_size_shift(memory_access access);
extern bool qemu_plugin_mem_is_store(memory_access access);
extern struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(memory_access access,
                                                         uint64_t address);
extern bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
extern uint64_t
qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
extern void qemu_plugin_register_atexit_cb(plugin_id id, at_end *call,
                                           void *data);

#endif
