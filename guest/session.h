// SPDX-License-Identifier: MIT
// A whole job: hello, sysctls, case after case, bye.
#ifndef KDYNO_SESSION_H
#define KDYNO_SESSION_H

#include "job.h"

// How many pages were put at drawn places, for hello.
void session_scattered(size_t pages);

// Is the scheduler in charge that was loaded? If not, a fatal record says why.
bool session_scheduled(void);

// The channel must be open. `tidy` is called after every case, when no process of it is left; it
// may be NULL. Returns false after a fatal record or a broken channel.
bool session_run(const struct job *job, void (*tidy)(void));

#endif
