// SPDX-License-Identifier: GPL-2.0-only
/* CRC-32C (Castagnoli, reflected 0x82f63b78), as ext4's metadata and SCTP have it. */
#include "candidate.h"

#include <nmmintrin.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u

static uint32_t table[8][256];

static void prepare(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (POLYNOMIAL & -(crc & 1));
        table[0][n] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (int n = 0; n < 256; n++)
            table[slice][n] = table[slice - 1][n] >> 8 ^ table[0][table[slice - 1][n] & 255];
}

static void bytewise(uint8_t *out, const uint8_t *in, size_t bytes) {
    uint32_t crc = ~0u;

    for (size_t i = 0; i < bytes; i++)
        crc = crc >> 8 ^ table[0][(crc ^ in[i]) & 255];
    memcpy(out, &crc, 4);
}

/* Eight tables, eight bytes a turn (Kounavis and Berry, "slicing by 8"). */
static void slices(uint8_t *out, const uint8_t *in, size_t bytes) {
    uint32_t crc = ~0u;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;

        memcpy(&word, in + i, 8);
        word ^= crc;
        crc = 0;
#pragma GCC unroll 8
        for (int n = 0; n < 8; n++)
            crc ^= table[7 - n][word >> 8 * n & 255];
    }
    memcpy(out, &crc, 4);
}

TARGET("sse4.2") static void instruction(uint8_t *out, const uint8_t *in, size_t bytes) {
    uint64_t crc = ~0u;
    uint32_t low;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;

        memcpy(&word, in + i, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    low = (uint32_t)crc;
    memcpy(out, &low, 4);
}

static const struct form forms[] = {
    {"scalar, a table and a byte a turn", "", bytewise},
    {"scalar, eight tables", "", slices},
    {"crc32 instruction", "sse4_2", instruction},
    {0},
};

const struct candidate crc32c = {"crc32c", prepare, forms};
