// SPDX-License-Identifier: MIT
// The scheduler that the host put into the first files, as a program for the kernel.
#ifndef KDYNO_SCHEDULER_H
#define KDYNO_SCHEDULER_H

#include <stdbool.h>
#include <stddef.h>

// Loads the one called `name`, which must live on, and puts it in charge. False with the reason.
bool scheduler_load(const char *name, char *reason, size_t size);
// Is it in charge still? True where none was loaded. False with the kernel's reason.
bool scheduler_holds(char *reason, size_t size);

#endif
