// SPDX-License-Identifier: GPL-2.0-only
// help: FreeBSD's traditional one: one queue, priorities by CPU use that decays with the load
//
// Written from its description in McKusick and Neville-Neil, The Design and Implementation of the
// FreeBSD Operating System (2004), section 4.4, and sched_4bsd(4). docs/research/schedulers.md has
// every constant with its source, and what is different here.
#include "scheduler.h"

enum {
    QUEUE = 0,
    PRIORITY_KERNEL = 80, // of the kernel's own threads
    PRIORITY_USER = 160,  // the best of a user's thread
    PRIORITY_WORST = 223,
    PRIORITIES_A_BAND = 4, // threads of a band take turns
    NICE_LEAST = -20,
    NICE_MOST = 20,
    USE_TICKS_A_PRIORITY = 8, // of the statistics clock, for each CPU
    STATISTICS_HZ = 128,
    QUANTUM_TICKS = 10, // of this kernel's clock, which has 100 a second
    LOAD_ONE = 2048,    // the load average is in units of 1/2048
    LOAD_SECONDS = 5,   // it is sampled so often
    LOAD_KEPT = 1884,   // exp(-5/60), in those units
    ORDER_BITS = 48,
};

struct thread {
    u64 use_ns;   // CPU time, decayed each second
    u64 second;   // up to which it is decayed
    u64 since_ns; // it runs since then, or what it ran before is counted
    u64 order;    // among those of its band
    u32 ticks;    // left of its quantum
    u32 priority;
    bool arrived; // it has become runnable, and was not queued since
};

#include "threads.h"

static s32 cpus = 1;
static u64 next_order = 1ULL << (ORDER_BITS - 1);
static u64 load = 0;         // average, in 1/LOAD_ONE
static u64 load_sampled = 0; // in LOAD_SECONDS since the machine began
static s64 runnable_count = 0;
static u64 keyed_second = 0; // up to which the queue's keys are right
static u32 all_running[CPUS_MAX];

// Priority of what a CPU runs.
static __always_inline u32 *running(s32 cpu) {
    return &all_running[(u32)cpu % CPUS_MAX];
}

static void sample_load(u64 now) {
    u64 reached = now / (LOAD_SECONDS * SECOND), from = load_sampled;
    if (reached <= from || !__sync_bool_compare_and_swap(&load_sampled, from, reached))
        return;
    // What nobody looked at was idle time: a CPU that runs something has ticks.
    u64 next = decayed(load, reached - from - 1, LOAD_KEPT, LOAD_ONE);
    s64 count = runnable_count > 0 ? runnable_count : 0;
    load = (next * LOAD_KEPT + count * LOAD_ONE * (LOAD_ONE - LOAD_KEPT)) / LOAD_ONE;
}

static __always_inline u64 priority_ns(void) {
    return (u64)cpus * USE_TICKS_A_PRIORITY * SECOND / STATISTICS_HZ;
}

static void use(struct thread *t, u64 ns) {
    u64 most = (NICE_MOST - NICE_LEAST - PRIORITIES_A_BAND + 1) * priority_ns() - 1;
    t->use_ns = t->use_ns + ns < most ? t->use_ns + ns : most;
}

// Counts what it ran until now.
static void charge(struct thread *t, u64 now) {
    if (now > t->since_ns)
        use(t, now - t->since_ns);
    t->since_ns = now;
}

// Its use as it is after the seconds that have passed, and the priority that follows from it.
static void reckon(struct task_struct *p, struct thread *t, u64 now) {
    u64 second = now / SECOND;
    if (second > t->second) { // the CPUs' clocks differ a little
        t->use_ns = decayed(t->use_ns, second - t->second, 2 * load, 2 * load + LOAD_ONE);
        t->second = second;
    }
    if (is_kernels(p)) {
        t->priority = PRIORITY_KERNEL;
        return;
    }
    s64 wanted = PRIORITY_USER + (s64)(t->use_ns / priority_ns()) + nice_of(p) - NICE_LEAST;
    t->priority = wanted > PRIORITY_WORST ? PRIORITY_WORST : wanted;
}

static __always_inline u64 band(u32 priority) {
    return priority / PRIORITIES_A_BAND;
}

static __always_inline u64 key(const struct thread *t) {
    return band(t->priority) << ORDER_BITS | t->order;
}

// Who has nothing left of its quantum waits behind its band; who has goes on where it was.
static void line_up(struct thread *t) {
    if (t->ticks)
        return;
    t->ticks = QUANTUM_TICKS;
    t->order = __sync_fetch_and_add(&next_order, 1);
}

// Wakes an idle CPU for it, else stops the one that runs the worst, if that is worse.
static void find_cpu(struct task_struct *p, const struct thread *t) {
    s32 own = scx_bpf_task_cpu(p), worst = -1, cpu;
    u32 found = t->priority;
    if (*running(own) == PRIORITY_NONE)
        return; // the kernel sees to that
    s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
    if (idle >= 0) {
        scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
        return;
    }
    bpf_for(cpu, 0, cpus < CPUS_MAX ? cpus : CPUS_MAX) if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
                                                           *running(cpu) != PRIORITY_NONE &&
                                                           band(*running(cpu)) > band(found)) {
        found = *running(cpu);
        worst = cpu;
    }
    if (worst >= 0)
        scx_bpf_kick_cpu(worst, SCX_KICK_PREEMPT);
}

s32 OP(bsd_select_cpu, struct task_struct *p, s32 last, u64 flags) {
    if (scx_bpf_test_and_clear_cpu_idle(last))
        return last;
    s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
    return idle >= 0 ? idle : last;
}

void OP(bsd_enqueue, struct task_struct *p, u64 flags) {
    struct thread *t = of(p);
    if (!t) {
        scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);
        return;
    }
    reckon(p, t, scx_bpf_now());
    line_up(t);
    scx_bpf_dsq_insert_vtime(p, QUEUE, SCX_SLICE_INF, key(t), flags);
    if (t->arrived)
        find_cpu(p, t);
    t->arrived = false;
}

// Once a second what waits is put where it now belongs.
static void key_again(u64 now) {
    u64 second = now / SECOND, before = keyed_second;
    if (before >= second || !__sync_bool_compare_and_swap(&keyed_second, before, second))
        return;
    struct bpf_iter_scx_dsq it;
    struct task_struct *p;
    bpf_iter_scx_dsq_new(&it, QUEUE, 0);
    while ((p = bpf_iter_scx_dsq_next(&it))) {
        struct thread *t = of(p);
        if (!t)
            continue;
        reckon(p, t, now);
        if (key(t) == p->scx.dsq_vtime)
            continue;
        scx_bpf_dsq_move_set_vtime(&it, key(t));
        scx_bpf_dsq_move_vtime(&it, p, QUEUE, 0);
    }
    bpf_iter_scx_dsq_destroy(&it);
}

// The key of the first that may run here; the greatest number where there is none.
static u64 first_key(s32 cpu) {
    struct bpf_iter_scx_dsq it;
    struct task_struct *p;
    u64 found = ~0ULL;
    bpf_iter_scx_dsq_new(&it, QUEUE, 0);
    while ((p = bpf_iter_scx_dsq_next(&it)))
        if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
            found = p->scx.dsq_vtime;
            break;
        }
    bpf_iter_scx_dsq_destroy(&it);
    return found;
}

void OP(bsd_dispatch, s32 cpu, struct task_struct *prev) {
    u64 now = scx_bpf_now();
    key_again(now);
    if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
        struct thread *t = of(prev);
        if (t) {
            charge(t, now);
            reckon(prev, t, now);
            // With its quantum over it is behind all of its own band.
            u64 own = t->ticks ? key(t) : (band(t->priority) + 1) << ORDER_BITS;
            if (own <= first_key(cpu)) {
                line_up(t);
                scx_bpf_task_set_slice(prev, SCX_SLICE_INF);
                return;
            }
        }
    }
    bool idle = !scx_bpf_dsq_move_to_local(QUEUE) && !(prev && prev->scx.flags & SCX_TASK_QUEUED);
    if (idle)
        *running(cpu) = PRIORITY_NONE;
}

void OP(bsd_tick, struct task_struct *p) {
    u64 now = scx_bpf_now();
    struct thread *t = of(p);
    sample_load(now);
    if (!t)
        return;
    charge(t, now);
    reckon(p, t, now);
    *running(scx_bpf_task_cpu(p)) = t->priority;
    if (t->ticks)
        t->ticks--;
    if (!t->ticks || keyed_second < now / SECOND)
        turn_over(p);
}

bool OP(bsd_yield, struct task_struct *from, struct task_struct *to) {
    struct thread *t = of(from);
    if (t)
        t->ticks = 0;
    turn_over(from);
    return false;
}

void OP(bsd_runnable, struct task_struct *p, u64 flags) {
    sample_load(scx_bpf_now());
    __sync_fetch_and_add(&runnable_count, 1);
    struct thread *t = of(p);
    if (t)
        t->arrived = true;
}

void OP(bsd_quiescent, struct task_struct *p, u64 flags) {
    __sync_fetch_and_add(&runnable_count, -1);
    struct thread *t = of(p);
    if (t)
        t->ticks = 0; // who sleeps has a new quantum when it wakes up
}

void OP(bsd_running, struct task_struct *p) {
    struct thread *t = of(p);
    if (!t)
        return;
    t->since_ns = scx_bpf_now();
    *running(scx_bpf_task_cpu(p)) = t->priority;
}

void OP(bsd_stopping, struct task_struct *p, bool runnable) {
    struct thread *t = of(p);
    if (t)
        charge(t, scx_bpf_now());
    *running(scx_bpf_task_cpu(p)) = PRIORITY_BETWEEN;
}

// A child begins with what its parent used, and a parent is charged with what its child used.
s32 OP(bsd_init_task, struct task_struct *p, struct scx_init_task_args *args) {
    struct thread *t = made(p), *parent = forking(args);
    if (!t)
        return -12; // ENOMEM
    t->second = scx_bpf_now() / SECOND;
    if (parent)
        t->use_ns = parent->use_ns;
    return 0;
}

void OP(bsd_exit_task, struct task_struct *p, struct scx_exit_task_args *args) {
    struct task_struct *parent = parent_of(p);
    if (!parent)
        return;
    struct thread *t = of(p), *other = of(parent);
    if (t && other) {
        reckon(parent, other, scx_bpf_now());
        use(other, t->use_ns);
    }
    bpf_task_release(parent);
}

s32 OP_MAY_SLEEP(bsd_init) {
    cpus = scx_bpf_nr_cpu_ids();
    load_sampled = scx_bpf_now() / (LOAD_SECONDS * SECOND);
    for (int cpu = 0; cpu < CPUS_MAX; cpu++)
        *running(cpu) = PRIORITY_NONE;
    return cpus > CPUS_MAX ? -22 : scx_bpf_create_dsq(QUEUE, -1); // EINVAL
}

SCHEDULER bsd = {
    .select_cpu = (void *)bsd_select_cpu,
    .enqueue = (void *)bsd_enqueue,
    .dispatch = (void *)bsd_dispatch,
    .tick = (void *)bsd_tick,
    .yield = (void *)bsd_yield,
    .runnable = (void *)bsd_runnable,
    .quiescent = (void *)bsd_quiescent,
    .running = (void *)bsd_running,
    .stopping = (void *)bsd_stopping,
    .init_task = (void *)bsd_init_task,
    .exit_task = (void *)bsd_exit_task,
    .init = (void *)bsd_init,
    .name = "4bsd",
};
