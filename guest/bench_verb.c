// SPDX-License-Identifier: MIT
// The verbs that a person uses by hand: list, bench, job.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "session.h"
#include "table.h"
#include "verbs.h"

static char line[6 * WIRE_NOTE_BYTES_MAX + 48 * WIRE_REPS_MAX + 4096];

static int usage(const char *what, const char *value) {
    fprintf(stderr, "kdyno-guest: %s%s; kdyno-guest --help shows the usage\n", what, value);
    return EXIT_USAGE;
}

int verb_list(int argc, char **argv) {
    bool as_json = argc == 1 && !strcmp(argv[0], "--json");
    if (argc && !as_json)
        return usage("list knows only --json, not ", argv[0]);
    for (const struct bench_entry *entry = bench_table; entry->name; entry++) {
        if (!as_json) {
            printf("%-18s %s\n", entry->name, entry->bench->help);
            continue;
        }
        struct json json;
        json_start(&json, line, sizeof line - 1);
        json_text(&json, "name", entry->name);
        json_text(&json, "help", entry->bench->help);
        json_text(&json, "usage", entry->bench->usage ? entry->bench->usage : "");
        json_raw(&json, "}");
        line[json.used] = 0;
        puts(line);
    }
    return 0;
}

static bool number(const char *text, double least, double most, double *value) {
    char *end;
    *value = strtod(text, &end);
    return *text && !*end && *value >= least && *value <= most;
}

// Reads the options before the benchmark's own arguments; returns how many words, -1 on nonsense.
static int options(struct case_spec *spec, int argc, char **argv) {
    int at = 0;
    for (; at < argc && !strncmp(argv[at], "--", 2); at += 2) {
        double value;
        if (!argv[at][2])
            return at + 1;
        const char *text = at + 1 < argc ? argv[at + 1] : "";
        if (!strcmp(argv[at], "--seconds")) {
            if (!number(text, PLAN_SECONDS_LEAST, PLAN_SECONDS_MOST, &spec->plan.seconds))
                return -1;
            spec->plan.operations = 0;
        } else if (!strcmp(argv[at], "--operations")) {
            if (!number(text, 1, (double)PLAN_OPERATIONS_MOST, &value))
                return -1;
            spec->plan = (struct plan){.operations = (uint64_t)value};
        } else if (!strcmp(argv[at], "--timeout")) {
            if (!number(text, 0.001, 1e6, &spec->timeout_s))
                return -1;
        } else {
            return -1;
        }
    }
    return at;
}

int verb_bench(int argc, char **argv) {
    static struct case_outcome outcome;
    if (!argc)
        return usage("bench wants the name of a benchmark: kdyno-guest list names them", "");
    struct case_spec spec = {.bench = argv[0], .plan = {.seconds = 0.5}, .timeout_s = 600};
    int used = options(&spec, argc - 1, argv + 1);
    if (used < 0)
        return usage(
            "bench takes --seconds (0.01 to 86400), --operations (1 or more) and "
            "--timeout, each with a number",
            "");
    spec.argc = argc - 1 - used;
    spec.argv = argv + 1 + used;
    case_prepare();
    case_run(&spec, NULL, &outcome);
    if (outcome.kind != CASE_SAMPLE) {
        fprintf(stderr, "kdyno-guest: %s%s: %s\n", spec.bench,
                outcome.kind == CASE_SKIP ? " cannot run here" : "", outcome.reason);
        return outcome.kind == CASE_SKIP ? EXIT_SKIPPED : 1;
    }
    struct json json;
    json_start(&json, line, sizeof line - 1);
    json_text(&json, "bench", spec.bench);
    case_write(&json, &outcome);
    json_number(&json, "mono_ns", clock_ns());
    json_raw(&json, "}");
    line[json.used] = 0;
    return puts(line) < 0 || fflush(stdout) ? 1 : 0;
}

// The same job as in a guest, without mounts and power: for the host as a machine, and for tests.
int verb_job(int argc, char **argv) {
    double fd = 1, orders = -1;
    struct job job;
    char error[512];
    bool good = argc == 1 || argc == 3 || argc == 5;
    for (int at = 1; good && at + 1 < argc; at += 2)
        good = number(argv[at + 1], 0, 1 << 20, !strcmp(argv[at], "--fd") ? &fd : &orders) &&
               (!strcmp(argv[at], "--fd") || !strcmp(argv[at], "--orders"));
    if (!good)
        return usage("job wants a file, perhaps --fd N and --orders N", "");
    int own = fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return usage("the descriptor of --fd is not open", "");
    char *text = job_read(argv[0], error, sizeof error);
    if (!text || !job_parse(&job, text)) {
        fprintf(stderr, "kdyno-guest: %s\n", text ? job.error : error);
        return EXIT_USAGE;
    }
    if (fd > 1)
        close((int)fd);
    if (job.turns && orders < 0)
        return usage("a job with turns wants --orders N", "");
    channel_open(own, (int)orders, job.nonce);
    explicit_bzero(job.nonce, sizeof job.nonce);
    return session_run(&job, NULL) ? 0 : 1;
}
