// SPDX-License-Identifier: MIT
// What a case in a guest may do. Its programs run as root, as they do on a machine of one's own,
// but without the rights over the kernel and over the first process, which keeps the results.
#ifndef KDYNO_RIGHTS_H
#define KDYNO_RIGHTS_H

// In a case's own process, before any code of the case: for good, whatever it executes. NULL, or
// why it could not be done.
const char *rights_reduce(void);
// In the first process: programs that the kernel starts on its own (for a core, for a module) have
// no rights at all, for a case may name them.
void rights_close_helpers(void);

#endif
