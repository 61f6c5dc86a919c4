// SPDX-License-Identifier: MIT
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"

char *job_read(const char *path, char *error, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(error, size, "cannot open the job file %s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = malloc(JOB_BYTES_MAX + 1);
    size_t used = 0;
    ssize_t got = 0;
    while (text && used <= JOB_BYTES_MAX &&
           (got = read(fd, text + used, JOB_BYTES_MAX + 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    if (!text || got < 0 || used > JOB_BYTES_MAX) {
        snprintf(error, size, "cannot read the job file %s: %s", path,
                 got < 0 ? strerror(errno) : "it is longer than 128 KiB");
        free(text);
        return NULL;
    }
    text[used] = 0;
    return text;
}

struct reading {
    struct job *job;
    struct case_spec *open; // the case that the next lines belong to
    unsigned line;
    bool ended;
};

static bool refuse(struct reading *in, const char *format, ...) {
    char what[192];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    snprintf(in->job->error, sizeof in->job->error, "job file, line %u: %s", in->line, what);
    return false;
}

static void *grown(void *array, size_t count, size_t size) {
    // Doubling at powers of two: the capacity follows from the count.
    if (count & (count - 1))
        return array;
    void *more = realloc(array, (count ? 2 * count : 1) * size);
    if (!more)
        abort();
    return more;
}

static bool real(const char *text, double least, double most, double *value) {
    char *end;
    *value = strtod(text, &end);
    return *text && !*end && *value >= least && *value <= most;
}

static bool whole(const char *text, unsigned long long least, unsigned long long most,
                  unsigned long long *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *value >= least && *value <= most;
}

static bool take_nonce(struct reading *in, char *value) {
    bool good = strlen(value) == NONCE_LENGTH &&
                strspn(value, "0123456789abcdef") == NONCE_LENGTH && !in->job->nonce[0];
    if (good)
        memcpy(in->job->nonce, value, NONCE_LENGTH);
    explicit_bzero(value, strlen(value));
    return good || refuse(in, "nonce is not one word of 32 hexadecimal digits");
}

static bool take_sysctl(struct reading *in, char *value) {
    struct job *job = in->job;
    char *space = strchr(value, ' ');
    if (!space || space == value || space - value > 255 || strlen(space + 1) > 255)
        return refuse(in, "sysctl wants a name and a value of at most 255 bytes each");
    *space = 0;
    job->sysctls = grown(job->sysctls, job->sysctl_count, sizeof *job->sysctls);
    strcpy(job->sysctls[job->sysctl_count][0], value);
    strcpy(job->sysctls[job->sysctl_count++][1], space + 1);
    return true;
}

static bool take_case(struct reading *in, char *value) {
    struct job *job = in->job;
    unsigned long long index;
    char *space = strchr(value, ' ');
    if (!space || !space[1])
        return refuse(in, "case wants an index and the name of a benchmark");
    *space = 0;
    if (!whole(value, job->case_count, job->case_count, &index))
        return refuse(in, "the next case must have the index %zu", job->case_count);
    job->cases = grown(job->cases, job->case_count, sizeof *job->cases);
    in->open = &job->cases[job->case_count++];
    *in->open = (struct case_spec){
        .bench = space + 1,
        .plan = {.counters = job->counters, .metric = job->metric},
        .timeout_s = 60,
    };
    return true;
}

static bool take_arg(struct reading *in, char *value) {
    struct case_spec *one = in->open;
    // One place more than there are arguments: argv ends with NULL.
    one->argv = realloc(one->argv, ((size_t)one->argc + 2) * sizeof *one->argv);
    if (!one->argv)
        abort();
    one->argv[one->argc++] = value;
    one->argv[one->argc] = NULL;
    return true;
}

static bool take_line(struct reading *in, char *line) {
    static char nothing[] = "";
    char *value = strchr(line, ' ');
    if (value)
        *value++ = 0;
    else
        value = nothing;
    unsigned long long count;
    if (in->line == 1)
        return (!strcmp(line, "kdyno-job") && !strcmp(value, "1")) ||
               refuse(in, "it must say kdyno-job 1");
    if (in->ended)
        return refuse(in, "there is something after end");
    if (!strcmp(line, "nonce"))
        return take_nonce(in, value);
    if (!in->job->nonce[0])
        return refuse(in, "the nonce must come before %.40s", line);
    if (!strcmp(line, "end"))
        return in->ended = true;
    if (!strcmp(line, "turns"))
        return in->job->turns = true;
    if (!strcmp(line, "counter") || !strcmp(line, "metric")) {
        unsigned bit = counters_bit(value);
        *(*line == 'm' ? &in->job->metric : &in->job->counters) |= bit;
        return (bit && !in->open) ||
               refuse(in, "%s %.40s: no such counter, or too late", line, value);
    }
    if (!strcmp(line, "sysctl"))
        return take_sysctl(in, value);
    if (!strcmp(line, "case"))
        return take_case(in, value);
    if (!in->open)
        return refuse(in, "%.40s belongs to a case, and none has begun", line);
    if (!strcmp(line, "arg"))
        return take_arg(in, value);
    if (!strcmp(line, "seconds"))
        return real(value, PLAN_SECONDS_LEAST, PLAN_SECONDS_MOST, &in->open->plan.seconds) ||
               refuse(in, "seconds must be from %g to %g, not %.40s", PLAN_SECONDS_LEAST,
                      PLAN_SECONDS_MOST, value);
    if (!strcmp(line, "operations")) {
        if (!whole(value, 1, PLAN_OPERATIONS_MOST, &count))
            return refuse(in, "operations must be a whole number above 0, not %.40s", value);
        in->open->plan.operations = count;
        return true;
    }
    if (!strcmp(line, "timeout"))
        return real(value, 0.001, 1e6, &in->open->timeout_s) ||
               refuse(in, "timeout must be a time in seconds, not %.40s", value);
    return refuse(in, "unknown word %.40s", line);
}

bool job_parse(struct job *job, char *text) {
    memset(job, 0, sizeof *job);
    struct reading in = {.job = job};
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        in.line++;
        if (!end)
            return refuse(&in, "the line does not end: the file is cut off");
        *end = 0;
        if (!take_line(&in, line))
            return false;
        line = end + 1;
    }
    if (!in.ended)
        return refuse(&in, "end is missing: the file is cut off");
    for (size_t i = 0; i < job->case_count; i++)
        if (!job->cases[i].plan.operations == !(job->cases[i].plan.seconds > 0))
            return refuse(&in, "case %zu must have either seconds or operations", i);
    return true;
}
