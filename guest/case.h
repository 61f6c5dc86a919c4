// SPDX-License-Identifier: MIT
// One case in a process group and session of its own, with a time limit.
#ifndef KDYNO_CASE_H
#define KDYNO_CASE_H

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

// Once, before the first case: orphans of cases become children of this process.
void case_prepare(void);
// Runs it and leaves no process of it behind. `in_child` is called in the new process before any
// code of the case, to forget what cases must not know; it may be NULL.
void case_run(const struct case_spec *spec, void (*in_child)(void), struct case_outcome *outcome);
// "reps", "user_ns", "sys_ns", "calibration_ns" and "extra" of a sample.
void case_write(struct json *json, const struct case_outcome *outcome);

#endif
