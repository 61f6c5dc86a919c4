// SPDX-License-Identifier: MIT
// guest/counters.c on a machine whose answers are given: read(2) and syscall(2)
// are renamed to the two below. Input: "open ERRNO" (0: it opens) for each
// perf_event_open(2), then for each read(2) "read COUNT ENABLED RUNNING". argv:
// the counter, the operations.
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "bench.h"
#include "counters.h"

long recorded_syscall(long number, ...) {
  int error;
  (void)number;
  if (scanf(" open %d", &error) != 1)
    abort();
  errno = error;
  return error ? -1 : 100;
}

ssize_t recorded_read(int fd, void *bytes, size_t size) {
  uint64_t reading[3];
  (void)fd;
  if (scanf(" read %" SCNu64 " %" SCNu64 " %" SCNu64, reading, reading + 1,
            reading + 2) != 3 ||
      size != sizeof reading)
    abort();
  memcpy(bytes, reading, size);
  return (ssize_t)size;
}

void bench_fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  vprintf(format, values);
  exit(0);
}

void bench_note(const char *key, const void *bytes, size_t length) {
  printf("%s %.*s\n", key, (int)length, (const char *)bytes);
}

int main(int argc, char **argv) {
  unsigned bit = argc == 3 ? counters_bit(argv[1]) : 0;
  counters_open(bit);
  counters_begin(OF_CASE);
  counters_note(bit, strtoull(argv[2], NULL, 10));
  counters_begin(OF_REPETITION);
  printf("repetition %" PRIu64 "\n", counters_of_repetition(bit));
  return 0;
}
