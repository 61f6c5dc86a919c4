/* SPDX-License-Identifier: MIT */
#include "ceiling.h"

#include <immintrin.h>

#include "clock.h"

typedef void stores(unsigned char *target, size_t bytes);
typedef void copies(unsigned char *target, const unsigned char *source, size_t bytes);

/* ``bytes`` is a multiple of 256 everywhere, and both addresses are multiples of 64. */
static void store_16(unsigned char *at, size_t bytes)
{
	for (unsigned char *end = at + bytes; at < end; at += 64)
		__asm__ volatile("movaps %%xmm1, (%0)\n\tmovaps %%xmm1, 16(%0)\n\t"
				 "movaps %%xmm1, 32(%0)\n\tmovaps %%xmm1, 48(%0)"
				 :
				 : "r"(at)
				 : "memory");
}

static void store_32(unsigned char *at, size_t bytes)
{
	for (unsigned char *end = at + bytes; at < end; at += 128)
		__asm__ volatile("vmovdqa %%ymm1, (%0)\n\tvmovdqa %%ymm1, 32(%0)\n\t"
				 "vmovdqa %%ymm1, 64(%0)\n\tvmovdqa %%ymm1, 96(%0)"
				 :
				 : "r"(at)
				 : "memory");
	__asm__ volatile("vzeroupper");
}

static void store_64(unsigned char *at, size_t bytes)
{
	for (unsigned char *end = at + bytes; at < end; at += 256)
		__asm__ volatile("vmovdqa64 %%zmm17, (%0)\n\tvmovdqa64 %%zmm17, 64(%0)\n\t"
				 "vmovdqa64 %%zmm17, 128(%0)\n\tvmovdqa64 %%zmm17, 192(%0)"
				 :
				 : "r"(at)
				 : "memory");
}

static void loop_16(unsigned char *to, const unsigned char *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 16)
		_mm_store_si128((__m128i *)(to + at), _mm_load_si128((const __m128i *)(from + at)));
}

static void past_16(unsigned char *to, const unsigned char *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 16)
		_mm_stream_si128((__m128i *)(to + at),
				 _mm_load_si128((const __m128i *)(from + at)));
	_mm_sfence();
}

__attribute__((target("avx2"))) static void loop_32(unsigned char *to, const unsigned char *from,
						    size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 32)
		_mm256_store_si256((__m256i *)(to + at),
				   _mm256_load_si256((const __m256i *)(from + at)));
}

__attribute__((target("avx512f"))) static void loop_64(unsigned char *to, const unsigned char *from,
						       size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 64)
		_mm512_store_si512(to + at, _mm512_load_si512(from + at));
}

static void by_string(unsigned char *to, const unsigned char *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

enum { TRIES = 7 };

double store_rate(unsigned char *target, size_t bytes, int width, double tsc_ghz)
{
	stores *run = width == 64 ? store_64 : width == 32 ? store_32 : store_16;
	enum { TURNS = 256 };
	double best = 0;

	for (int attempt = 0; attempt < 4 * TRIES; attempt++) {
		uint64_t begin = ticks();
		double rate;

		for (int turn = 0; turn < TURNS; turn++)
			run(target, bytes);
		rate = TURNS * (double)bytes * tsc_ghz / (double)(ticks() - begin);
		if (rate > best)
			best = rate;
	}
	return best;
}

double copy_rate(unsigned char *target, const unsigned char *source, size_t bytes, int width,
		 double tsc_ghz)
{
	copies *rivals[] = {
		width == 64   ? loop_64
		: width == 32 ? loop_32
			      : loop_16,
		past_16,
		by_string,
	};
	/* A short copy is repeated until the counter's own cost does not matter. */
	size_t turns = bytes < 1 << 20 ? (1 << 20) / bytes : 1;
	double best = 0;

	for (size_t rival = 0; rival < sizeof(rivals) / sizeof(*rivals); rival++)
		for (int attempt = 0; attempt < TRIES; attempt++) {
			uint64_t begin = ticks();
			double rate;

			for (size_t turn = 0; turn < turns; turn++)
				rivals[rival](target, source, bytes);
			rate = (double)turns * (double)bytes * tsc_ghz / (double)(ticks() - begin);
			if (rate > best)
				best = rate;
		}
	return best;
}
