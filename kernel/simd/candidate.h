/* SPDX-License-Identifier: GPL-2.0-only */
/* One job that a kernel does, in several forms that must give the same bytes. */
#ifndef KDYNO_SIMD_CANDIDATE_H
#define KDYNO_SIMD_CANDIDATE_H

#include <stddef.h>
#include <stdint.h>

#define TARGET(features) __attribute__((target(features)))

/*
 * out: as many bytes as the input. in: two stretches of `bytes`, one after the other; only the XOR
 * reads the second. Both begin at a cache line; `bytes` is a multiple of 64.
 */
typedef void form_fn(uint8_t *out, const uint8_t *in, size_t bytes);

struct form {
    const char *name;
    const char *requires; /* features as in /proc/cpuinfo, joined by commas; "" for none */
    form_fn *run;
};

struct candidate {
    const char *name;
    void (*prepare)(void);    /* tables and keys; may be NULL */
    const struct form *forms; /* the scalar one first, a nameless one last */
};

extern const struct candidate checksum, crc32c, dirhash, aes, xor2;

#endif
