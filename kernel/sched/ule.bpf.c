// SPDX-License-Identifier: GPL-2.0-only
// help: FreeBSD's ULE: queues of each CPU, interactive threads first, affinity, stealing
//
// Written from its descriptions in Roberson, ULE: A Modern Scheduler for FreeBSD (BSDCon 2003),
// McKusick, Neville-Neil and Watson, The Design and Implementation of the FreeBSD Operating System
// (2014), section 4.4, and sched_ule(4). docs/research/schedulers.md has every constant with its
// source, and what is different here.
#include "scheduler.h"

enum {
    PRIORITY_KERNEL = 80, // of the kernel's own threads
    INTERACTIVE_BEST = 120,
    INTERACTIVE_WORST = 151,
    BATCH_BEST = 152,
    BATCH_RANGE = 72,   // 152 to 223
    BATCH_MIDDLE = 172, // of a batch thread that used nothing, at nice 0
    USE_RANGE = 32,     // what CPU use adds at most, and one more
    PRIORITIES_A_BAND = 4,
    SCORE_HALF = 50,        // of who sleeps as long as it runs; 100 is the worst
    SCORE_INTERACTIVE = 30, // below that
    SLICE_TICKS = 10,       // of this kernel's clock, which has 100 a second
    SLICE_SHARED_BY = 6,    // threads of one CPU at most; with more, slices stay as they are
    BUCKETS = 64,           // of the calendar
    STEAL_LOAD = 2,         // of a CPU that another may take from
    ORDER_BITS = 48,
};

#define HISTORY_NS (5 * SECOND)        // of sleeping and running
#define HISTORY_FORKED_NS (SECOND / 2) // what a child is given of it
#define USE_NS (10 * SECOND)           // over which CPU use is looked at
#define FORK_NS (SECOND / 127)         // a tick of the statistics clock: what a fork costs
#define BALANCE_NS SECOND

struct thread {
    u64 ran_ns, slept_ns; // history
    u64 used_ns,
        seen_ns;   // CPU time of the last ten seconds, and how many there were
    u64 looked_ns; // when these were right
    u64 sleeps_ns; // it sleeps since then, 0 otherwise
    u64 order;     // among those of its band
    u64 key;       // in its queue
    u32 ticks;     // of its slice that are over
    u32 priority;
    s32 cpu;      // whose load it is part of, -1: none
    bool arrived; // it has become runnable, and was not queued since
};

#include "threads.h"

// What a CPU has. Buckets of its calendar have numbers that only grow.
struct lane {
    u64 insert,
        remove;  // the bucket that is now, and the one that threads are taken from
    s64 load;    // threads that run or wait here
    u32 running; // priority of what it runs
    s32 pull;    // it is to take one from CPU pull - 1
};

static struct lane lanes[CPUS_MAX];
static s32 cpus = 1;
static u64 next_order = 1ULL << (ORDER_BITS - 1);
static u64 balanced_ns = 0;

static __always_inline struct lane *at(s32 cpu) {
    return &lanes[(u32)cpu % CPUS_MAX];
}

// Two queues a CPU: those who run before all batch threads, by band; and the calendar.
static __always_inline u64 first_queue(s32 cpu) {
    return 2 * (u64)cpu;
}

static __always_inline u64 calendar(s32 cpu) {
    return 2 * (u64)cpu + 1;
}

static __always_inline bool is_batch(u32 priority) {
    return priority >= BATCH_BEST;
}

// The history keeps its proportion and forgets what is long ago.
static void forget(struct thread *t) {
    u64 sum = t->ran_ns + t->slept_ns;
    if (sum < HISTORY_NS)
        return;
    if (sum > 2 * HISTORY_NS) {
        bool mostly_ran = t->ran_ns > t->slept_ns;
        t->ran_ns = mostly_ran ? HISTORY_NS : 1;
        t->slept_ns = mostly_ran ? 1 : HISTORY_NS;
    } else if (sum > HISTORY_NS / 5 * 6) {
        t->ran_ns /= 2;
        t->slept_ns /= 2;
    } else {
        t->ran_ns = t->ran_ns / 5 * 4;
        t->slept_ns = t->slept_ns / 5 * 4;
    }
}

// 0 for who only sleeps, 50 for half and half, 100 for who only runs.
static s64 score(const struct thread *t) {
    if (t->ran_ns > t->slept_ns)
        return 2 * SCORE_HALF - t->slept_ns * SCORE_HALF / t->ran_ns;
    return t->slept_ns ? t->ran_ns * SCORE_HALF / t->slept_ns : 0;
}

// How long it ran, or did not, since this was asked last; the ten seconds go on with it.
static u64 look(struct thread *t, u64 now, bool ran) {
    if (now <= t->looked_ns) // the CPUs' clocks differ a little
        return 0;
    u64 passed = now - t->looked_ns;
    t->looked_ns = now;
    t->seen_ns += passed;
    if (passed >= USE_NS) {
        t->used_ns = 0;
        t->seen_ns = USE_NS;
    } else if (t->seen_ns >= USE_NS + SECOND) { // one second of grace, then ten again
        t->used_ns = t->used_ns / ((t->seen_ns - passed) >> 20) * ((USE_NS - passed) >> 20);
        t->seen_ns = USE_NS;
    }
    if (ran)
        t->used_ns += passed;
    return passed;
}

static void reckon(struct task_struct *p, struct thread *t, u64 now) {
    look(t, now, false);
    if (is_kernels(p)) {
        t->priority = PRIORITY_KERNEL;
        return;
    }
    s64 nice = nice_of(p), points = score(t) + nice;
    if (points < SCORE_INTERACTIVE) {
        s64 range = INTERACTIVE_WORST - INTERACTIVE_BEST + 1;
        t->priority = INTERACTIVE_BEST + (points > 0 ? points : 0) * range / SCORE_INTERACTIVE;
        return;
    }
    u64 seen = t->seen_ns > SECOND ? t->seen_ns : SECOND;
    u64 use = t->used_ns * USE_RANGE / seen;
    t->priority = BATCH_MIDDLE + nice + (use < USE_RANGE ? use : USE_RANGE - 1);
}

// Counts what it ran until now.
static void charge(struct thread *t, u64 now) {
    t->ran_ns += look(t, now, true);
    forget(t);
}

static void woken(struct thread *t, u64 now) {
    if (!t->sleeps_ns)
        return;
    if (now > t->sleeps_ns) {
        t->slept_ns += now - t->sleeps_ns;
        forget(t);
    }
    t->sleeps_ns = 0;
}

static void belongs(struct thread *t, s32 cpu) {
    if (t->cpu == cpu)
        return;
    if (t->cpu >= 0)
        __sync_fetch_and_add(&at(t->cpu)->load, -1);
    if (cpu >= 0)
        __sync_fetch_and_add(&at(cpu)->load, 1);
    t->cpu = cpu;
}

// The key that it would have in its queue if it was put there now.
static void line_up(struct thread *t, const struct lane *c) {
    if (!is_batch(t->priority)) {
        if (!t->ticks)
            t->order = __sync_fetch_and_add(&next_order, 1);
        t->key = (u64)(t->priority / PRIORITIES_A_BAND) << ORDER_BITS | t->order;
        return;
    }
    if (t->ticks) { // it was stopped in its slice, and goes on before all others
        t->key = c->remove;
        return;
    }
    u64 later = BUCKETS * (t->priority - BATCH_BEST) / BATCH_RANGE;
    u64 last = c->remove + BUCKETS - 1;
    t->key = c->insert + later < last ? c->insert + later : last;
}

// The first of a queue, by its key; the greatest number where it is empty.
static u64 first_key(u64 queue) {
    struct task_struct *p = scx_bpf_dsq_peek(queue);
    return p ? p->scx.dsq_vtime : ~0ULL;
}

// The day that threads are taken from is over when nobody is left in it.
static void turn_page(struct lane *c, s32 cpu) {
    if (c->insert != c->remove && first_key(calendar(cpu)) > c->remove)
        c->remove = c->insert;
}

// The CPU with the least load of those that would run it at once, else of all; its last one where
// that is as good.
static s32 least_loaded(struct task_struct *p, u32 priority, s32 last) {
    s32 cpu, found = -1, count = cpus < CPUS_MAX ? cpus : CPUS_MAX;
    s64 best = 0;
    bpf_for(cpu, 0, count) {
        const struct lane *c = at(cpu);
        if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
            continue;
        s64 rank = 2 * c->load + (cpu != last) + (priority < c->running ? 0 : 1 << 20);
        if (found < 0 || rank < best) {
            found = cpu;
            best = rank;
        }
    }
    return found;
}

s32 OP(ule_select_cpu, struct task_struct *p, s32 last, u64 flags) {
    struct thread *t = of(p);
    u64 now = scx_bpf_now();
    if (scx_bpf_test_and_clear_cpu_idle(last))
        return last;
    s32 idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
    if (idle >= 0 || !t)
        return idle >= 0 ? idle : last;
    woken(t, now);
    reckon(p, t, now);
    s32 found = least_loaded(p, t->priority, last);
    return found >= 0 ? found : last;
}

// On its own CPU a better one goes first; on another's only where that stops a batch thread. What
// is stopped goes on before all batch threads, so these stop nobody.
static void preempt(const struct thread *t, const struct lane *c, s32 cpu) {
    bool here = cpu == (s32)bpf_get_smp_processor_id();
    if (c->running == PRIORITY_NONE || t->priority >= c->running || is_batch(t->priority))
        return;
    if (here || is_batch(c->running))
        scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

void OP(ule_enqueue, struct task_struct *p, u64 flags) {
    struct thread *t = of(p);
    s32 cpu = scx_bpf_task_cpu(p);
    struct lane *c = at(cpu);
    u64 now = scx_bpf_now();
    if (!t) {
        scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);
        return;
    }
    woken(t, now);
    reckon(p, t, now);
    line_up(t, c);
    belongs(t, cpu);
    u64 queue = is_batch(t->priority) ? calendar(cpu) : first_queue(cpu);
    scx_bpf_dsq_insert_vtime(p, queue, SCX_SLICE_INF, t->key, flags);
    if (t->arrived)
        preempt(t, c, cpu);
    t->arrived = false;
}

static bool take(s32 cpu) {
    return scx_bpf_dsq_move_to_local(first_queue(cpu)) || scx_bpf_dsq_move_to_local(calendar(cpu));
}

// From the most loaded CPU that has one which may run here.
static bool steal(s32 own) {
    u64 tried = 0;
    s32 turn, cpu, count = cpus < CPUS_MAX ? cpus : CPUS_MAX;
    bpf_for(turn, 0, count) {
        s64 most = STEAL_LOAD - 1;
        s32 from = -1;
        bpf_for(cpu, 0, count) {
            s64 load = at(cpu)->load;
            if (cpu != own && !(tried >> cpu & 1) && load > most) {
                most = load;
                from = cpu;
            }
        }
        if (from < 0 || take(from))
            return from >= 0;
        tried |= 1ULL << from;
    }
    return false;
}

// Whether who ran goes on: it would be the first of all that wait here.
static bool stays(struct task_struct *p, struct thread *t, struct lane *c, s32 cpu, u64 now) {
    charge(t, now);
    reckon(p, t, now);
    line_up(t, c);
    // At the same place in the calendar who waits goes first.
    u64 interactive = first_key(first_queue(cpu)), batch = first_key(calendar(cpu));
    bool rests = t->ticks;
    if (!is_batch(t->priority))
        return t->key <= interactive;
    return interactive == ~0ULL && (rests ? t->key <= batch : t->key < batch);
}

void OP(ule_dispatch, s32 cpu, struct task_struct *prev) {
    struct lane *c = at(cpu);
    s32 pull = c->pull;
    c->pull = 0;
    if (pull && take(pull - 1))
        return;
    if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
        struct thread *t = of(prev);
        if (t && stays(prev, t, c, cpu, scx_bpf_now())) {
            scx_bpf_task_set_slice(prev, SCX_SLICE_INF);
            return;
        }
        take(cpu);
    } else if (!take(cpu) && !steal(cpu) && !take(cpu)) {
        // Asked again: to take from another CPU this one's lock is let go, and whoever is woken to
        // this one meanwhile finds it busy with asking, and would wait until more happens.
        c->running = PRIORITY_NONE;
    }
    turn_page(c, cpu);
}

// Once a second the least loaded CPU takes one from the most loaded.
static void balance(u64 now) {
    u64 before = balanced_ns;
    s32 cpu, high = 0, low = 0, count = cpus < CPUS_MAX ? cpus : CPUS_MAX;
    if (now < before + BALANCE_NS || !__sync_bool_compare_and_swap(&balanced_ns, before, now))
        return;
    bpf_for(cpu, 0, count) {
        if (at(cpu)->load > at(high)->load)
            high = cpu;
        if (at(cpu)->load < at(low)->load)
            low = cpu;
    }
    if (at(high)->load <= at(low)->load)
        return;
    at(low)->pull = high + 1;
    scx_bpf_kick_cpu(low, SCX_KICK_IDLE);
}

static __always_inline u32 slice(s64 load) {
    s64 others = load - 1;
    if (others >= SLICE_SHARED_BY)
        return SLICE_TICKS / SLICE_SHARED_BY;
    return others <= 1 ? SLICE_TICKS : SLICE_TICKS / others;
}

void OP(ule_tick, struct task_struct *p) {
    u64 now = scx_bpf_now();
    s32 cpu = scx_bpf_task_cpu(p);
    struct thread *t = of(p);
    struct lane *c = at(cpu);
    if (!t)
        return;
    balance(now);
    if (c->insert == c->remove) {
        c->insert++;
        turn_page(c, cpu);
    }
    charge(t, now);
    reckon(p, t, now);
    c->running = t->priority;
    if (++t->ticks >= slice(c->load)) {
        t->ticks = 0;
        turn_over(p);
    }
}

bool OP(ule_yield, struct task_struct *from, struct task_struct *to) {
    struct thread *t = of(from);
    if (t)
        t->ticks = 0;
    turn_over(from);
    return false;
}

void OP(ule_runnable, struct task_struct *p, u64 flags) {
    struct thread *t = of(p);
    if (t)
        t->arrived = true;
}

void OP(ule_quiescent, struct task_struct *p, u64 flags) {
    struct thread *t = of(p);
    if (!t)
        return;
    belongs(t, -1);
    t->ticks = 0;
    if (flags & SCX_DEQ_SLEEP)
        t->sleeps_ns = scx_bpf_now();
}

void OP(ule_running, struct task_struct *p) {
    s32 cpu = scx_bpf_task_cpu(p);
    struct thread *t = of(p);
    struct lane *c = at(cpu);
    if (!t)
        return;
    belongs(t, cpu); // it may have been stolen
    look(t, scx_bpf_now(), false);
    c->running = t->priority;
}

void OP(ule_stopping, struct task_struct *p, bool runnable) {
    struct thread *t = of(p);
    if (t)
        charge(t, scx_bpf_now());
    at(scx_bpf_task_cpu(p))->running = PRIORITY_BETWEEN;
}

// A child begins with its parent's proportion of sleeping and running, and soon has its own; its
// parent is taken to have run for a tick. What the child ran is its parent's at its end, without
// what it slept.
s32 OP(ule_init_task, struct task_struct *p, struct scx_init_task_args *args) {
    struct thread *t = made(p), *parent = forking(args);
    if (!t)
        return -12; // ENOMEM
    t->cpu = -1;
    t->looked_ns = scx_bpf_now();
    if (!parent)
        return 0;
    t->ran_ns = parent->ran_ns;
    t->slept_ns = parent->slept_ns;
    t->used_ns = parent->used_ns;
    t->seen_ns = parent->seen_ns;
    u64 sum = t->ran_ns + t->slept_ns;
    if (sum > HISTORY_FORKED_NS) {
        u64 times = sum / HISTORY_FORKED_NS;
        t->ran_ns /= times;
        t->slept_ns /= times;
    }
    parent->ran_ns += FORK_NS;
    forget(parent);
    return 0;
}

void OP(ule_exit_task, struct task_struct *p, struct scx_exit_task_args *args) {
    struct task_struct *parent = parent_of(p);
    if (!parent)
        return;
    struct thread *t = of(p), *other = of(parent);
    if (t && other) {
        other->ran_ns += t->ran_ns;
        forget(other);
    }
    bpf_task_release(parent);
}

s32 OP_MAY_SLEEP(ule_init) {
    s32 cpu, count;
    cpus = scx_bpf_nr_cpu_ids();
    if (cpus > CPUS_MAX)
        return -22; // EINVAL
    count = cpus;
    balanced_ns = scx_bpf_now();
    bpf_for(cpu, 0, count) {
        struct lane *c = at(cpu);
        c->running = PRIORITY_NONE;
        c->insert = c->remove = BUCKETS;
        s32 failed = scx_bpf_create_dsq(first_queue(cpu), -1);
        if (failed || (failed = scx_bpf_create_dsq(calendar(cpu), -1)))
            return failed;
    }
    return 0;
}

SCHEDULER ule = {
    .select_cpu = (void *)ule_select_cpu,
    .enqueue = (void *)ule_enqueue,
    .dispatch = (void *)ule_dispatch,
    .tick = (void *)ule_tick,
    .yield = (void *)ule_yield,
    .runnable = (void *)ule_runnable,
    .quiescent = (void *)ule_quiescent,
    .running = (void *)ule_running,
    .stopping = (void *)ule_stopping,
    .init_task = (void *)ule_init_task,
    .exit_task = (void *)ule_exit_task,
    .init = (void *)ule_init,
    .name = "ule",
};
