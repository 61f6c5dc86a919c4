/* SPDX-License-Identifier: GPL-2.0-only */
// What a scheduler of this folder begins with: the kernel's types and calls. A scheduler is one
// file NAME.bpf.c with the comment `help:` in its second line, and calls itself NAME.
#ifndef KDYNO_SCHEDULER_H
#define KDYNO_SCHEDULER_H

#include "vmlinux.h" // written from the types of the kernel that it is built for

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

// Documentation/scheduler/sched-ext.rst in Linux says what each does.
s32 scx_bpf_create_dsq(u64 queue, s32 node) __ksym;
void scx_bpf_dsq_insert(struct task_struct *p, u64 queue, u64 slice, u64 flags) __ksym;
void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 queue, u64 slice, u64 key,
                              u64 flags) __ksym;
bool scx_bpf_dsq_move_to_local(u64 queue) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 queue) __ksym;
struct task_struct *scx_bpf_dsq_peek(u64 queue) __ksym;
void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 key) __ksym;
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 queue,
                            u64 flags) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 queue, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
s32 scx_bpf_pick_idle_cpu(const cpumask_t *allowed, u64 flags) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
u32 scx_bpf_nr_cpu_ids(void) __ksym;
u64 scx_bpf_now(void) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;

#define OP(name, ...) SEC("struct_ops/" #name) BPF_PROG(name, ##__VA_ARGS__)
#define OP_MAY_SLEEP(name, ...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##__VA_ARGS__)
#define SCHEDULER SEC(".struct_ops.link") struct sched_ext_ops

enum {
    CPUS_MAX = 64,           // a scheduler takes no machine that has more
    DECAYS_MOST = 64,        // after so many nothing is left
    KERNEL_THREAD = 1 << 21, // PF_KTHREAD
};

// From FreeBSD, whose nice is from -20 to 20 and Linux's to 19.
static __always_inline s32 nice_of(const struct task_struct *p) {
    return p->static_prio - 120;
}

static __always_inline bool is_kernels(const struct task_struct *p) {
    return p->flags & KERNEL_THREAD;
}

// `value` times part/whole, so many times.
static __always_inline u64 decayed(u64 value, u64 times, u64 part, u64 whole) {
    s32 i, count = times < DECAYS_MOST ? (s32)times : DECAYS_MOST;
    bpf_for(i, 0, count) value = value * part / whole;
    return times > DECAYS_MOST ? 0 : value;
}

// `slice` is then over: its CPU asks who is next.
static __always_inline void turn_over(struct task_struct *p) {
    scx_bpf_task_set_slice(p, 0);
}

#endif
