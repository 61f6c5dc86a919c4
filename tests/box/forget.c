// SPDX-License-Identifier: MIT
// A plugin for QEMU's emulation: forget all that was translated when another
// kernel begins, by a reset or by kexec. Else each byte of the new kernel that
// is written over the old one's code is looked up in the list of what was
// translated of that page: 12 s, where the first boot takes 1.
#include "interface.h"

#define RESET_VECTOR 0xfffffff0
#define KERNEL_FROM 0xffffffff81000000
// Where a kernel unpacks itself: code in memory that is mapped one to one.
#define UNPACKED_FROM 0x1000000
#define UNPACKED_TO 0x40000000

extern int qemu_plugin_reset(plugin_id id, void (*call)(plugin_id id));

EXPORTED int qemu_plugin_version = INTERFACE;
static bool kernel_ran;

static void begin(plugin_id id);

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
  uint64_t address = qemu_plugin_tb_vaddr(block);
  if (address >= KERNEL_FROM) {
    kernel_ran = true;
  } else if (kernel_ran &&
             (address == RESET_VECTOR ||
              (address >= UNPACKED_FROM && address < UNPACKED_TO))) {
    kernel_ran = false;
    qemu_plugin_reset(id, begin);
  }
}

static void begin(plugin_id id) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
}

EXPORTED int qemu_plugin_install(plugin_id id, const struct info *info,
                                 int argc, char **argv) {
  (void)info, (void)argc, (void)argv;
  begin(id);
  return 0;
}
