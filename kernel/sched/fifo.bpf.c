// SPDX-License-Identifier: GPL-2.0-only
// help: one queue, first come first served, 20 ms a turn; no priorities, nothing preempts
//
// The ruler for the other schedulers: whoever becomes runnable waits for all that came before.
#include "scheduler.h"

enum { TURN_NS = 19 * 1000 * 1000 }; // over at the second tick, of which there are 100 a second

void OP(fifo_enqueue, struct task_struct *p, u64 flags) {
    scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, TURN_NS, flags);
}

SCHEDULER fifo = {
    .enqueue = (void *)fifo_enqueue,
    .name = "fifo",
};
