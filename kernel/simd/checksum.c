// SPDX-License-Identifier: GPL-2.0-only
/* The Internet checksum: the ones' complement sum of 16-bit words, as of a packet. */
#include "candidate.h"

#include <immintrin.h>
#include <string.h>

/* A 64-bit sum with the carries added back is congruent to the sum of the 16-bit words. */
static uint16_t fold(unsigned __int128 sum) {
    uint64_t low;

    sum = (uint64_t)sum + (sum >> 64);
    low = (uint64_t)sum + (uint64_t)(sum >> 64);
    low = (low & 0xffffffff) + (low >> 32);
    low = (low & 0xffffffff) + (low >> 32);
    low = (low & 0xffff) + (low >> 16);
    low = (low & 0xffff) + (low >> 16);
    return (uint16_t)low;
}

static void words(uint8_t *out, const uint8_t *in, size_t bytes) {
    uint64_t carry = 0, sum = 0;
    uint16_t folded;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;

        memcpy(&word, in + i, 8);
        carry += __builtin_add_overflow(sum, word, &sum);
    }
    folded = fold((unsigned __int128)sum + carry);
    memcpy(out, &folded, 2);
}

/* Halves of 32 bits added into lanes of 64: no carry gets lost below 2^32 turns. */
TARGET("avx2") static void avx2(uint8_t *out, const uint8_t *in, size_t bytes) {
    const __m256i low = _mm256_set1_epi64x(0xffffffff);
    __m256i a = _mm256_setzero_si256(), b = a;
    unsigned __int128 sum = 0;
    uint64_t lanes[4];
    uint16_t folded;

    for (size_t i = 0; i < bytes; i += 64) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(in + i));
        __m256i y = _mm256_loadu_si256((const __m256i *)(in + i + 32));

        a = _mm256_add_epi64(a, _mm256_and_si256(x, low));
        b = _mm256_add_epi64(b, _mm256_srli_epi64(x, 32));
        a = _mm256_add_epi64(a, _mm256_and_si256(y, low));
        b = _mm256_add_epi64(b, _mm256_srli_epi64(y, 32));
    }
    _mm256_storeu_si256((__m256i *)lanes, _mm256_add_epi64(a, b));
    for (int i = 0; i < 4; i++)
        sum += lanes[i];
    folded = fold(sum);
    memcpy(out, &folded, 2);
}

TARGET("avx512f") static void avx512(uint8_t *out, const uint8_t *in, size_t bytes) {
    const __m512i low = _mm512_set1_epi64(0xffffffff);
    __m512i a = _mm512_setzero_si512(), b = a;
    unsigned __int128 sum = 0;
    uint64_t lanes[8];
    uint16_t folded;

    for (size_t i = 0; i < bytes; i += 64) {
        __m512i x = _mm512_loadu_si512(in + i);

        a = _mm512_add_epi64(a, _mm512_and_si512(x, low));
        b = _mm512_add_epi64(b, _mm512_srli_epi64(x, 32));
    }
    _mm512_storeu_si512(lanes, _mm512_add_epi64(a, b));
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    folded = fold(sum);
    memcpy(out, &folded, 2);
}

static const struct form forms[] = {
    {"scalar, 64-bit with carry", "", words},
    {"avx2", "avx2", avx2},
    {"avx512", "avx512f", avx512},
    {0},
};

const struct candidate checksum = {"checksum", NULL, forms};
