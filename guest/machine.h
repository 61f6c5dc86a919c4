// SPDX-License-Identifier: MIT
// How a guest finds what its host gives it: one row of a table for each kind of machine.
#ifndef KDYNO_MACHINE_H
#define KDYNO_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

struct machine {
    const char *name; // as kdyno.machine=NAME on the command line says it; without: the first row
    // The job's text, whole, as job_read gives it, and gone from where it was: cases are not to
    // read its nonce. `path` is what kdyno.job= names. `channel` is open already.
    char *(*take_job)(const char *path, int channel, char *error, size_t size);
    const char *channel;      // the device of the results and of the host's orders
    const char *channel_asks; // what to give the kernel, or its host, where there is no such device
    bool channel_is_tty;      // and wants to be raw
    const char *disk;         // block device with an ext4, where there is one
    // Mounts what the host shares at `at`, read-only: programs/, tree/, prepared/, and where the
    // root is not the host's, its programs in their own places. False with errno when it cannot;
    // ENOENT: nothing is shared.
    bool (*share)(const char *path, const char *at);
    int ends_by; // for reboot(2): what makes the host's process end
};

// The row of this name; the first for NULL; NULL where there is none.
const struct machine *machine_find(const char *name);

#endif
