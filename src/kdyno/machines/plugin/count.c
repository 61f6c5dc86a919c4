// SPDX-License-Identifier: MIT
// A plugin for QEMU's emulation: how often the instruction at each address was executed between the
// marks that the guest program's harness sets around each timed part of a case. Loaded by
//   -plugin file=count.so,fd=N
// and at the end of each part it writes to descriptor N: "part N", then "ADDRESS COUNT" lines, in
// hexadecimal and decimal, for all addresses that were executed in it.
//
// The declarations are those of QEMU's plugin interface, version 1 (QEMU 4.2 to 8.x), which has no
// header in any binary package; docs/devel/tcg-plugins describes it.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

typedef uint64_t plugin_id;
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
typedef void on_translation(plugin_id id, struct qemu_plugin_tb *block);
typedef void on_instruction(unsigned vcpu, void *data);
typedef void at_end(plugin_id id, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, on_translation *call);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block,
                                                        size_t index);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int operation,
                                                       void *counter, uint64_t more);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                                   on_instruction *call, int registers, void *data);
extern void qemu_plugin_register_atexit_cb(plugin_id id, at_end *call, void *data);

EXPORTED int qemu_plugin_version = 1;

enum { SLOTS = 1 << 20 };

// Open addressing; an address stays where it is, for translated code holds a pointer to its count.
static struct slot {
    uint64_t address, count, before;
} slots[SLOTS];
static size_t used;
static bool inside;
static unsigned parts;
static FILE *out;

static struct slot *slot_of(uint64_t address) {
    size_t at = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 44;
    while (slots[at].address && slots[at].address != address)
        at = (at + 1) % SLOTS;
    if (!slots[at].address && used++ > SLOTS / 2) {
        fprintf(stderr, "kdyno: more code than the plugin has room for\n");
        exit(1);
    }
    slots[at].address = address;
    return &slots[at];
}

static void begin(unsigned vcpu, void *data) {
    (void)vcpu, (void)data;
    for (size_t i = 0; i < SLOTS; i++)
        slots[i].before = slots[i].count;
    inside = true;
}

static void end(unsigned vcpu, void *data) {
    (void)vcpu, (void)data;
    if (!inside)
        return;
    inside = false;
    fprintf(out, "part %u\n", parts++);
    for (size_t i = 0; i < SLOTS; i++)
        if (slots[i].count != slots[i].before)
            fprintf(out, "%" PRIx64 " %" PRIu64 "\n", slots[i].address,
                    slots[i].count - slots[i].before);
}

// nopl 0x6b640001(%rax) begins a part, nopl 0x6b640000(%rax) ends it.
static on_instruction *mark_of(const struct qemu_plugin_insn *insn) {
    static const unsigned char nop[] = {0x0f, 0x1f, 0x80, 0, 0x00, 0x64, 0x6b};
    const unsigned char *bytes = qemu_plugin_insn_data(insn);
    if (qemu_plugin_insn_size(insn) != sizeof nop || memcmp(bytes, nop, 3) ||
        memcmp(bytes + 4, nop + 4, 3) || bytes[3] > 1)
        return NULL;
    return bytes[3] ? begin : end;
}

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
        struct slot *slot = slot_of(qemu_plugin_insn_vaddr(insn));
        qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, &slot->count, 1);
        on_instruction *call = mark_of(insn);
        if (call)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, call, NO_REGISTERS, NULL);
    }
}

static void at_exit(plugin_id id, void *data) {
    (void)id, (void)data;
    fputs("end\n", out);
    fclose(out);
}

EXPORTED int qemu_plugin_install(plugin_id id, const struct info *info, int argc, char **argv) {
    if (!info->whole_system || argc != 1 || strncmp(argv[0], "fd=", 3) ||
        !(out = fdopen(atoi(argv[0] + 3), "w")))
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
