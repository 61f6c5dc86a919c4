/* SPDX-License-Identifier: GPL-2.0-only */
// What a scheduler keeps of each thread: its own `struct thread`, defined before this is included.
#ifndef KDYNO_THREADS_H
#define KDYNO_THREADS_H

#include <bpf/bpf_core_read.h>

#define SECOND 1000000000ULL

// In the place of the priority of what a CPU runs: all that there are stop it, or nothing has to.
enum { PRIORITY_BETWEEN = 254, PRIORITY_NONE = 255 };

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct thread);
} threads SEC(".maps");

// NULL for one that was there before the scheduler, and does not belong to it yet.
static struct thread *of(struct task_struct *p) {
    return bpf_task_storage_get(&threads, p, NULL, 0);
}

// Of a new one, all zeros; NULL where there is no memory.
static __always_inline struct thread *made(struct task_struct *p) {
    return bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

// Of who forks the one that is being made; NULL where nobody does.
static __always_inline struct thread *forking(const struct scx_init_task_args *args) {
    return args->fork ? of(bpf_get_current_task_btf()) : NULL;
}

// The parent of a process that ends, to be released; NULL for its threads but the first.
static __always_inline struct task_struct *parent_of(struct task_struct *p) {
    return p->pid == p->tgid ? bpf_task_from_pid(BPF_CORE_READ(p, real_parent, tgid)) : NULL;
}

#endif
