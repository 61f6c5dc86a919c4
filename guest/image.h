// SPDX-License-Identifier: MIT
// The small program guest/alone/process.c, which this program carries inside.
#ifndef KDYNO_IMAGE_H
#define KDYNO_IMAGE_H

#include <stddef.h>

// Writes it into the working folder, executable; the path goes to `path`. Or bench_fail.
void image_write(char *path, size_t size);

#endif
