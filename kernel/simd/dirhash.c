// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shape of ext4's directory hash: a cut-down MD4 over the 32 bytes of a short name. One name is
 * one chain of additions and rotations, each waiting for the one before; only several names at
 * once fill a vector.
 */
#include "candidate.h"

#include <immintrin.h>
#include <string.h>

#define NAME_BYTES 32
#define SEED_A 0x67452301u
#define SEED_B 0xefcdab89u
#define SEED_C 0x98badcfeu
#define SEED_D 0x10325476u
#define ROOT_2 0x5a827999u
#define ROOT_3 0x6ed9eba1u

/* The order of the eight words and the rotations of each of the three rounds (RFC 1320, halved). */
static const uint8_t order[3][8] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {1, 3, 5, 7, 0, 2, 4, 6}, {3, 7, 2, 6, 1, 5, 0, 4}};
static const uint8_t turns[3][4] = {{3, 7, 11, 19}, {3, 5, 9, 13}, {3, 9, 11, 15}};
static const uint32_t constant[3] = {0, ROOT_2, ROOT_3};

static inline uint32_t mix(int round, uint32_t x, uint32_t y, uint32_t z) {
    if (round == 0)
        return z ^ (x & (y ^ z));
    return round == 1 ? (x & y) + ((x ^ y) & z) : x ^ y ^ z;
}

static void one(uint8_t *out, const uint8_t *in, size_t bytes) {
    for (size_t at = 0; at < bytes; at += NAME_BYTES) {
        uint32_t v[4] = {SEED_A, SEED_B, SEED_C, SEED_D}, word[8];

        memcpy(word, in + at, NAME_BYTES);
#pragma GCC unroll 3
        for (int round = 0; round < 3; round++) {
#pragma GCC unroll 8
            for (int n = 0; n < 8; n++) {
                uint32_t *a = &v[-n & 3];
                int by = turns[round][n & 3];

                *a += mix(round, v[(1 - n) & 3], v[(2 - n) & 3], v[(3 - n) & 3]) +
                      word[order[round][n]] + constant[round];
                *a = *a << by | *a >> (32 - by);
            }
        }
        v[1] += SEED_B;
        memcpy(out + at / 8, &v[1], 4);
    }
}

TARGET("avx2") static inline __m256i mix8(int round, __m256i x, __m256i y, __m256i z) {
    __m256i both = _mm256_xor_si256(x, y);

    if (round == 0)
        return _mm256_xor_si256(z, _mm256_and_si256(x, _mm256_xor_si256(y, z)));
    if (round == 1)
        return _mm256_add_epi32(_mm256_and_si256(x, y), _mm256_and_si256(both, z));
    return _mm256_xor_si256(both, z);
}

/* Eight names at once, one in each lane; the last ones one by one. */
TARGET("avx2") static void eight(uint8_t *out, const uint8_t *in, size_t bytes) {
    const __m256i step = _mm256_setr_epi32(0, 8, 16, 24, 32, 40, 48, 56);
    size_t at = 0;

    for (; at + 8 * NAME_BYTES <= bytes; at += 8 * NAME_BYTES) {
        __m256i v[4] = {_mm256_set1_epi32((int)SEED_A), _mm256_set1_epi32((int)SEED_B),
                        _mm256_set1_epi32((int)SEED_C), _mm256_set1_epi32((int)SEED_D)};
        __m256i word[8];

        for (int n = 0; n < 8; n++)
            word[n] = _mm256_i32gather_epi32((const int *)(in + at) + n, step, 4);
#pragma GCC unroll 3
        for (int round = 0; round < 3; round++) {
#pragma GCC unroll 8
            for (int n = 0; n < 8; n++) {
                __m256i *a = &v[-n & 3];
                int by = turns[round][n & 3];
                __m256i add = _mm256_add_epi32(word[order[round][n]],
                                               _mm256_set1_epi32((int)constant[round]));

                add = _mm256_add_epi32(add,
                                       mix8(round, v[(1 - n) & 3], v[(2 - n) & 3], v[(3 - n) & 3]));
                *a = _mm256_add_epi32(*a, add);
                *a = _mm256_or_si256(_mm256_slli_epi32(*a, by), _mm256_srli_epi32(*a, 32 - by));
            }
        }
        v[1] = _mm256_add_epi32(v[1], _mm256_set1_epi32((int)SEED_B));
        _mm256_storeu_si256((__m256i *)(out + at / 8), v[1]);
    }
    one(out + at / 8, in + at, bytes - at);
}

static const struct form forms[] = {
    {"scalar, one name", "", one},
    {"avx2, eight names", "avx2", eight},
    {0},
};

const struct candidate dirhash = {"directory hash", NULL, forms};
