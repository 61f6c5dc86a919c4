// SPDX-License-Identifier: GPL-2.0-only
/*
 * Times every form of every candidate: `lab FEATURES SIZES`, both joined by commas. Prints
 * candidate, form, bytes and the median ns of a call, separated by tabs. A form whose bytes differ
 * from the scalar form's ends the program with status 1 before anything is timed.
 */
#include "candidate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LARGEST 65536
#define ROUNDS 9
#define ROUND_NS 2000000

static const struct candidate *const all[] = {&checksum, &crc32c, &dirhash, &aes, &xor2};
static _Alignas(64) uint8_t input[2 * LARGEST], output[LARGEST], wanted[LARGEST];

/* CPU time: what else runs on the machine counts only through the caches. */
static double now_ns(void) {
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static bool has(const char *list, const char *word, size_t length) {
    while (*list) {
        size_t each = strcspn(list, ",");

        if (each == length && !strncmp(list, word, length))
            return true;
        list += each + (list[each] == ',');
    }
    return false;
}

static bool supported(const struct form *form, const char *features) {
    for (const char *at = form->requires; *at;) {
        size_t length = strcspn(at, ",");

        if (!has(features, at, length))
            return false;
        at += length + (at[length] == ',');
    }
    return true;
}

static void check(const struct candidate *candidate, const struct form *form) {
    for (size_t bytes = 64; bytes <= 4096; bytes += 64) {
        memset(wanted, 0, bytes);
        memset(output, 0, bytes);
        candidate->forms[0].run(wanted, input, bytes);
        form->run(output, input, bytes);
        if (memcmp(wanted, output, bytes)) {
            fprintf(stderr, "%s: %s differs at %zu bytes\n", candidate->name, form->name, bytes);
            exit(1);
        }
    }
}

static double timed_ns(const struct form *form, size_t bytes, long calls) {
    double began = now_ns();

    for (long n = 0; n < calls; n++) {
        form->run(output, input, bytes);
        __asm__ volatile("" ::: "memory");
    }
    return (now_ns() - began) / (double)calls;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const struct candidate *candidate, const char *features, size_t bytes) {
    double ns[8][ROUNDS];
    long calls[8] = {0};

    /* Rounds over all forms in turn: drift of the machine meets them all alike. */
    for (int round = -1; round < ROUNDS; round++) {
        for (int n = 0; candidate->forms[n].name; n++) {
            const struct form *form = &candidate->forms[n];

            if (!supported(form, features))
                continue;
            if (round >= 0)
                ns[n][round] = timed_ns(form, bytes, calls[n]);
            else
                calls[n] = 1 + (long)(ROUND_NS / timed_ns(form, bytes, 200));
        }
    }
    for (int n = 0; candidate->forms[n].name; n++) {
        if (!calls[n])
            continue;
        qsort(ns[n], ROUNDS, sizeof(double), by_value);
        printf("%s\t%s\t%zu\t%.3f\n", candidate->name, candidate->forms[n].name, bytes,
               ns[n][ROUNDS / 2]);
    }
}

int main(int argc, char **argv) {
    const char *features = argc > 1 ? argv[1] : "";
    char *sizes = argc > 2 ? argv[2] : NULL;
    size_t bytes[16], count = 0;

    for (char *word = sizes ? strtok(sizes, ",") : NULL; word && count < 16;
         word = strtok(NULL, ",")) {
        bytes[count] = strtoul(word, NULL, 10);
        if (!bytes[count] || bytes[count] % 64 || bytes[count] > LARGEST) {
            fprintf(stderr, "%s: a size is a multiple of 64 up to %d\n", word, LARGEST);
            return 2;
        }
        count++;
    }
    srand(1);
    for (size_t n = 0; n < sizeof(input); n++)
        input[n] = (uint8_t)(rand() >> 8);
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++) {
        if (all[n]->prepare)
            all[n]->prepare();
        for (const struct form *form = all[n]->forms; form->name; form++)
            if (supported(form, features))
                check(all[n], form);
    }
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++)
        for (size_t at = 0; at < count; at++)
            measure(all[n], features, bytes[at]);
    return 0;
}
