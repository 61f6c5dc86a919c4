// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <pthread.h>

#include "bench.h"
#include "team.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t counted, expected;

static void work(int member, uint64_t operations) {
    (void)member;
    for (uint64_t i = 0; i < operations; i++) {
        pthread_mutex_lock(&lock);
        counted++;
        pthread_mutex_unlock(&lock);
    }
}

static void setup(int argc, char **argv) {
    (void)argc;
    (void)argv;
    team_start(work);
}

static void body(uint64_t iterations) {
    expected += iterations;
    team_work(iterations);
}

static void cleanup(void) {
    if (counted != expected)
        bench_fail("%" PRIu64 " locks were counted instead of %" PRIu64, counted, expected);
}

BENCH(threads_lock) = {
    .help = "4 threads take and leave one mutex",
    .setup = setup,
    .body = body,
    .cleanup = cleanup,
};
