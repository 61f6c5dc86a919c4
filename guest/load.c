// SPDX-License-Identifier: MIT
#include "load.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"

static const uint64_t first_every_ns = 100000000;

// False where /proc/stat cannot be read.
static bool stat_now(uint64_t *busy, uint64_t *all, uint64_t *runnable) {
    static char text[64 * 1024]; // the line of running tasks stands behind those of the CPUs
    int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t used = 0;
    for (ssize_t got;
         used < sizeof text - 1 && (got = read(fd, text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    close(fd);
    text[used] = 0;
    uint64_t user, nice, system, idle, wait, irq, softirq;
    const char *running = strstr(text, "procs_running ");
    if (!running || sscanf(running, "procs_running %" SCNu64, runnable) != 1 ||
        sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &user, &nice, &system, &idle, &wait, &irq, &softirq) != 7)
        return false;
    *busy = user + nice + system + irq + softirq;
    *all = *busy + idle + wait;
    if (*runnable)
        --*runnable; // the one that looks
    return true;
}

void load_start(struct load *load, uint64_t tasks) {
    uint64_t runnable;
    *load = (struct load){.tasks = tasks, .every_ns = first_every_ns, .start_ns = clock_ns()};
    load->next_ns = load->start_ns + load->every_ns;
    if (tasks && !stat_now(&load->busy, &load->all, &runnable))
        load->tasks = 0;
}

int load_wait_ms(const struct load *load) {
    if (!load->tasks)
        return -1;
    uint64_t now = clock_ns();
    return now >= load->next_ns ? 0 : (int)((load->next_ns - now) / 1000000) + 1;
}

// A command that goes on and on is looked at less often. For the picture: of two looks the mean.
static void thin(struct load *load) {
    for (int i = 0; i < LOAD_LOOKS / 2; i++) {
        load->looks[i] = load->looks[2 * i + 1];
        load->looks[i].runnable = (load->looks[2 * i].runnable + load->looks[i].runnable + 1) / 2;
    }
    load->count = LOAD_LOOKS / 2;
    load->every_ns *= 2;
}

static void keep(struct load *load, uint64_t now, uint64_t runnable, uint32_t busy_percent) {
    if (load->count == LOAD_LOOKS)
        thin(load);
    load->looks[load->count].ms = (uint32_t)((now - load->start_ns) / 1000000);
    load->looks[load->count].runnable = (uint32_t)runnable;
    load->looks[load->count++].busy_percent = busy_percent;
    load->span_ns += load->every_ns;
    load->runnable_ns += load->every_ns * runnable;
    load->low_ns += 2 * runnable < load->tasks ? load->every_ns : 0;
    load->next_ns = now + load->every_ns;
}

void load_look(struct load *load) {
    uint64_t busy, all, runnable, now;
    if (!load->tasks || (now = clock_ns()) < load->next_ns || !stat_now(&busy, &all, &runnable))
        return;
    uint64_t passed = all > load->all ? all - load->all : 0;
    keep(load, now, runnable, passed ? (uint32_t)(100 * (busy - load->busy) / passed) : 0);
    load->busy = busy;
    load->all = all;
}

void load_note(const struct load *load) {
    static char text[LOAD_LOOKS * 24];
    if (!load->tasks || !load->count)
        return;
    size_t used = 0;
    for (int i = 0; i < load->count; i++) {
        int length =
            snprintf(text + used, sizeof text - used, "%s%u:%u:%u", i ? " " : "", load->looks[i].ms,
                     load->looks[i].runnable, load->looks[i].busy_percent);
        if (length < 0 || (size_t)length >= sizeof text - used)
            break;
        used += (size_t)length;
    }
    double span_ns = (double)load->span_ns;
    bench_note("load", text, used);
    int length = snprintf(text, sizeof text, "%.2f", (double)load->runnable_ns / span_ns);
    bench_note("mean_runnable", text, (size_t)length);
    length = snprintf(text, sizeof text, "%.1f", 100.0 * (double)load->low_ns / span_ns);
    bench_note("low_parallelism_percent", text, (size_t)length);
    length = snprintf(text, sizeof text, "%" PRIu64, load->tasks);
    bench_note("load_tasks", text, (size_t)length);
}
