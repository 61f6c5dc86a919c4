// SPDX-License-Identifier: MIT
// The job file: what this boot is to do.
#ifndef KDYNO_JOB_H
#define KDYNO_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "case.h"

enum { JOB_BYTES_MAX = 128 * 1024, NONCE_LENGTH = 32 };

struct job {
    char nonce[NONCE_LENGTH + 1];
    char (*sysctls)[2][256]; // name, value
    size_t sysctl_count;
    struct case_spec *cases;
    size_t case_count;
    bool turns;                // wait for orders instead of running every case
    unsigned counters, metric; // of every case, see struct plan
    char error[256];           // after job_parse returned false
};

// Reads the file whole into memory, with a NUL at its end; NULL with a text in `error`.
char *job_read(const char *path, char *error, size_t size);
// `text` is changed, its nonce is wiped, and it must live as long as the job. When it returns
// false, `error` says where and why; the nonce may already be known then.
bool job_parse(struct job *job, char *text);

#endif
