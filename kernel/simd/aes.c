// SPDX-License-Identifier: GPL-2.0-only
/* AES-128 in counter mode (FIPS 197, SP 800-38A), as of disk and network encryption. */
#include "candidate.h"

#include <immintrin.h>
#include <string.h>

#define ROUNDS 10

static uint8_t box[256];
static uint32_t column[256]; /* what a byte of the state contributes to a column */
static uint8_t keys[ROUNDS + 1][16];
static const uint8_t key[16] = "kdyno's own key";

static uint8_t twice(uint8_t x) {
    return (uint8_t)(x << 1 ^ (x >> 7) * 0x1b);
}

static void prepare(void) {
    uint8_t p = 1, q = 1;

    /* p runs through all elements by multiplication with 3, q by division: its inverse. */
    do {
        uint8_t s;

        p ^= twice(p);
        q ^= (uint8_t)(q << 1);
        q ^= (uint8_t)(q << 2);
        q ^= (uint8_t)(q << 4);
        q ^= (q >> 7) * 0x09;
        s = q;
        for (int by = 1; by <= 4; by++)
            s ^= (uint8_t)(q << by | q >> (8 - by));
        box[p] = s ^ 0x63;
    } while (p != 1);
    box[0] = 0x63;
    for (int n = 0; n < 256; n++) {
        uint8_t s = box[n], d = twice(s);

        column[n] = d | (uint32_t)s << 8 | (uint32_t)s << 16 | (uint32_t)(d ^ s) << 24;
    }
    memcpy(keys[0], key, 16);
    for (uint8_t round = 1, rc = 1; round <= ROUNDS; round++, rc = twice(rc)) {
        for (int n = 0; n < 16; n++) {
            uint8_t above = n < 4 ? box[keys[round - 1][12 + (n + 1) % 4]] : keys[round][n - 4];

            keys[round][n] = keys[round - 1][n] ^ above ^ (n == 0 ? rc : 0);
        }
    }
}

static inline uint32_t rotated(uint32_t word, int bits) {
    return bits ? word << bits | word >> (32 - bits) : word;
}

static void tables(uint8_t *out, const uint8_t *in, size_t bytes) {
    uint32_t k[ROUNDS + 1][4];

    memcpy(k, keys, sizeof(k));
    for (size_t at = 0; at < bytes; at += 16) {
        uint32_t w[4] = {(uint32_t)(at / 16), (uint32_t)((uint64_t)at / 16 >> 32)}, x[4];
        uint64_t mask[2], text[2];

        for (int c = 0; c < 4; c++)
            w[c] ^= k[0][c];
        for (int round = 1; round < ROUNDS; round++) {
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                x[c] = k[round][c];
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++)
                    x[c] ^= rotated(column[w[(c + r) & 3] >> 8 * r & 255], 8 * r);
            }
            memcpy(w, x, 16);
        }
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            x[c] = k[ROUNDS][c];
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++)
                x[c] ^= (uint32_t)box[w[(c + r) & 3] >> 8 * r & 255] << 8 * r;
        }
        memcpy(mask, x, 16);
        memcpy(text, in + at, 16);
        text[0] ^= mask[0];
        text[1] ^= mask[1];
        memcpy(out + at, text, 16);
    }
}

TARGET("aes,sse4.1") static void instructions(uint8_t *out, const uint8_t *in, size_t bytes) {
    __m128i k[ROUNDS + 1];

    for (int n = 0; n <= ROUNDS; n++)
        k[n] = _mm_loadu_si128((const __m128i *)keys[n]);
    /* Four blocks at once: an instruction starts every cycle, its result comes cycles later. */
    for (size_t at = 0; at < bytes; at += 64) {
        __m128i x[4];

        for (int n = 0; n < 4; n++)
            x[n] = _mm_xor_si128(_mm_set_epi64x(0, (long long)(at / 16) + n), k[0]);
        for (int round = 1; round < ROUNDS; round++)
            for (int n = 0; n < 4; n++)
                x[n] = _mm_aesenc_si128(x[n], k[round]);
        for (int n = 0; n < 4; n++) {
            __m128i text = _mm_loadu_si128((const __m128i *)(in + at + 16 * (size_t)n));

            x[n] = _mm_aesenclast_si128(x[n], k[ROUNDS]);
            _mm_storeu_si128((__m128i *)(out + at + 16 * (size_t)n), _mm_xor_si128(x[n], text));
        }
    }
}

TARGET("vaes,avx512f") static void wide(uint8_t *out, const uint8_t *in, size_t bytes) {
    __m512i k[ROUNDS + 1];

    for (int n = 0; n <= ROUNDS; n++)
        k[n] = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)keys[n]));
    for (size_t at = 0; at < bytes; at += 64) {
        long long n = (long long)(at / 16);
        __m512i x = _mm512_set_epi64(0, n + 3, 0, n + 2, 0, n + 1, 0, n);

        x = _mm512_xor_si512(x, k[0]);
        for (int round = 1; round < ROUNDS; round++)
            x = _mm512_aesenc_epi128(x, k[round]);
        x = _mm512_aesenclast_epi128(x, k[ROUNDS]);
        _mm512_storeu_si512(out + at, _mm512_xor_si512(x, _mm512_loadu_si512(in + at)));
    }
}

static const struct form forms[] = {
    {"scalar, tables", "", tables},
    {"aes instructions", "aes,sse4_1", instructions},
    {"vaes, 64 bytes", "vaes,avx512f", wide},
    {0},
};

const struct candidate aes = {"aes-128-ctr", prepare, forms};
