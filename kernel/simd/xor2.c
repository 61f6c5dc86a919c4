// SPDX-License-Identifier: GPL-2.0-only
/* RAID's XOR of two blocks into a third. */
#include "candidate.h"

#include <immintrin.h>
#include <string.h>

static void words(uint8_t *out, const uint8_t *in, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) {
#pragma GCC unroll 8
        for (int n = 0; n < 64; n += 8) {
            uint64_t a, b;

            memcpy(&a, in + i + n, 8);
            memcpy(&b, in + bytes + i + n, 8);
            a ^= b;
            /* Keeps each word in a general register: pairs would be merged. */
            __asm__("" : "+r"(a));
            memcpy(out + i + n, &a, 8);
        }
    }
}

static void sse2(uint8_t *out, const uint8_t *in, size_t bytes) {
#pragma GCC unroll 4
    for (size_t i = 0; i < bytes; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(in + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(in + bytes + i));

        _mm_storeu_si128((__m128i *)(out + i), _mm_xor_si128(a, b));
    }
}

TARGET("avx2") static void avx2(uint8_t *out, const uint8_t *in, size_t bytes) {
#pragma GCC unroll 4
    for (size_t i = 0; i < bytes; i += 32) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(in + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(in + bytes + i));

        _mm256_storeu_si256((__m256i *)(out + i), _mm256_xor_si256(a, b));
    }
}

TARGET("avx512f") static void avx512(uint8_t *out, const uint8_t *in, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        _mm512_storeu_si512(out + i, _mm512_xor_si512(_mm512_loadu_si512(in + i),
                                                      _mm512_loadu_si512(in + bytes + i)));
}

static const struct form forms[] = {
    {"scalar, eight 64-bit registers", "", words},
    {"sse2", "sse2", sse2},
    {"avx2", "avx2", avx2},
    {"avx512", "avx512f", avx512},
    {0},
};

const struct candidate xor2 = {"raid xor", NULL, forms};
