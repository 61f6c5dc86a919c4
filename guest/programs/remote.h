// SPDX-License-Identifier: MIT
// The program's end of bench/program.c: a number of operations comes in each line of the standard
// input, "done" goes out when they are done. Everything else that is said goes to stderr.
#ifndef KDYNO_REMOTE_H
#define KDYNO_REMOTE_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int remote_answers;

static inline void remote_say(const char *word, const char *format, va_list values) {
    char text[900];
    vsnprintf(text, sizeof text, format, values);
    dprintf(remote_answers, "%s %s\n", word, text);
}

// It cannot work here, and that is nobody's fault: say what to install.
static inline __attribute__((format(printf, 1, 2), noreturn)) void remote_skip(const char *format,
                                                                               ...) {
    va_list values;
    va_start(values, format);
    remote_say("skip", format, values);
    exit(0);
}

static inline __attribute__((format(printf, 1, 2), noreturn)) void remote_fail(const char *format,
                                                                               ...) {
    va_list values;
    va_start(values, format);
    remote_say("fail", format, values);
    exit(1);
}

// First thing in main: from here on a library that prints cannot be taken for an answer.
static inline void remote_begin(void) {
    remote_answers = dup(1);
    dup2(2, 1);
}

// Does what is asked until there is nobody to ask.
static inline int remote_serve(void (*body)(uint64_t iterations)) {
    uint64_t iterations;
    dprintf(remote_answers, "ready\n");
    while (scanf("%" SCNu64, &iterations) == 1) {
        body(iterations);
        dprintf(remote_answers, "done\n");
    }
    return 0;
}

#endif
