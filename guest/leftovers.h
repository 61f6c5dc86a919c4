// SPDX-License-Identifier: MIT
// Processes that outlive what started them.
#ifndef KDYNO_LEFTOVERS_H
#define KDYNO_LEFTOVERS_H

#include <stdbool.h>
#include <sys/types.h>

// Kills the process group, then every child of this process that is left (process 1 kills all
// there are), and reaps them. `alive`: the group's leader itself has not been reaped yet.
// False: something would not die within 10 s.
bool leftovers_clear(pid_t group, bool alive);

// All processes that this one may kill are its own, as those in a sandbox are: none is asked for in
// /proc, which need not be there.
void leftovers_alone(void);

#endif
