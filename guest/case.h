// SPDX-License-Identifier: MIT
// One case in a process group and session of its own, with a time limit.
#ifndef KDYNO_CASE_H
#define KDYNO_CASE_H

#include <sys/types.h>

#include "harness.h"
#include "json.h"
#include "wire.h"

struct case_spec {
    const char *bench;
    int argc;
    char **argv;
    struct plan plan;
    double timeout_s;
};

enum case_kind { CASE_SAMPLE, CASE_ERROR, CASE_SKIP };

struct case_outcome {
    enum case_kind kind;
    char reason[WIRE_TEXT_MAX + 256]; // of an error or a skip
    struct wire_reader said;          // of a sample
};

// A case that lives on between its turns.
struct case_process {
    pid_t pid;
    int from;   // what it says, without waiting
    int orders; // its orders; closing it is the word to end
};

// Once, before the first case: orphans of cases become children of this process.
void case_prepare(void);
// Runs it and leaves no process of it behind. `in_child` is called in the new process before any
// code of the case, to forget what cases must not know; it may be NULL.
void case_run(const struct case_spec *spec, void (*in_child)(void), struct case_outcome *outcome);
// The same case, for turns: starts it and returns; false with the outcome's reason when it cannot.
bool case_open(const struct case_spec *spec, void (*in_child)(void), struct case_process *process,
               struct case_outcome *outcome);
// Has its process ended? Reads what it said where it `spoke`, with as few system calls as can be:
// this is what a turn costs.
bool case_follow(const struct case_process *process, bool spoke, struct case_outcome *outcome,
                 int *status);
// After its end, or to end it now (`ended` false): judges it and leaves no process behind.
void case_close(const struct case_process *process, const struct case_spec *spec, bool ended,
                int status, struct case_outcome *outcome);
// "reps", "user_ns", "sys_ns", "calibration_ns" and "extra" of a sample.
void case_write(struct json *json, const struct case_outcome *outcome);

#endif
