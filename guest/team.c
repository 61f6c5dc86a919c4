// SPDX-License-Identifier: MIT
#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "bench.h"

static pthread_barrier_t begin, end;
static void (*duty)(int member, uint64_t operations);
static uint64_t total;

static void *member(void *number) {
    int own = (int)(intptr_t)number;
    while (pthread_barrier_wait(&begin) != EINVAL) {
        duty(own, total / TEAM + ((uint64_t)own < total % TEAM));
        pthread_barrier_wait(&end);
    }
    return NULL;
}

void team_start(void (*work)(int member, uint64_t operations)) {
    duty = work;
    pthread_barrier_init(&begin, NULL, TEAM + 1);
    pthread_barrier_init(&end, NULL, TEAM + 1);
    for (int i = 0; i < TEAM; i++) {
        pthread_t thread; // they end with the process
        int error = pthread_create(&thread, NULL, member, (void *)(intptr_t)i);
        if (error)
            bench_fail("cannot start thread %d: %s", i + 1, strerror(error));
    }
}

void team_work(uint64_t operations) {
    total = operations;
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
}
