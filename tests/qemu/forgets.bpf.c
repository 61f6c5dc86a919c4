// SPDX-License-Identifier: MIT
// help: like fifo, but whoever is nice is never run: the kernel throws it out after a second
#include "scheduler.h"

void OP(forgets_enqueue, struct task_struct *p, u64 flags) {
    if (nice_of(p) < 5)
        scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);
}

SCHEDULER forgets = {
    .enqueue = (void *)forgets_enqueue,
    .timeout_ms = 1000,
    .name = "forgets",
};
