// SPDX-License-Identifier: MIT
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

// Set by the assembler, from the program's file.
extern const char image_start[], image_end[];

void image_write(char *path, size_t size) {
    snprintf(path, size, "%s/kdyno-process-%d", bench_dir(), (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd < 0)
        bench_fail("cannot create %s: %s", path, strerror(errno));
    for (const char *at = image_start; at < image_end;) {
        ssize_t done = write(fd, at, (size_t)(image_end - at));
        if (done <= 0) {
            int why = done ? errno : ENOSPC;
            unlink(path);
            bench_fail("cannot write %s: %s", path, strerror(why));
        }
        at += done;
    }
    close(fd);
}
