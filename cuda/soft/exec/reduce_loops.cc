// SPDX-License-Identifier: Apache-2.0
#include "reduce_loops.h"

#include <algorithm>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Vectorise the loops whatever the build's options are. The instruction sets below do not cause fused multiply-add,
// because no loop of reduce_loops.inc multiplies and adds.
#pragma GCC optimize("O3")

namespace softexec {

// Conversion of IEEE half precision without hardware support. It computes all cases and selects one, so that the
// compiler can vectorise it.
struct PortableF16 {
	static void widen(float *d, const uint16_t *s, size_t n)
	{
		for (size_t i = 0; i < n; i++) {
			uint32_t h = s[i], mag = (h & 0x7fff) << 13;
			float f, scale = 0x1p112f;
			std::memcpy(&f, &mag, 4);
			f *= scale; // changes the exponent's bias from 15 to 127 and normalises subnormals
			uint32_t u;
			std::memcpy(&u, &f, 4);
			u |= mag >= 0x0f800000 ? 0x7f800000 : 0; // infinity and NaN
			u |= (h & 0x8000) << 16;
			std::memcpy(&d[i], &u, 4);
		}
	}
	static void narrow(uint16_t *d, const float *s, size_t n)
	{
		for (size_t i = 0; i < n; i++) {
			uint32_t u, sub;
			std::memcpy(&u, &s[i], 4);
			uint32_t mag = u & 0x7fffffff;
			float f;
			std::memcpy(&f, &mag, 4);
			f += 0.5f; // the sum's last bit is 2^-24, the unit of a subnormal half: the addition rounds
			std::memcpy(&sub, &f, 4);
			sub -= 0x3f000000;
			uint32_t normal = (mag - 0x38000000 + 0xfff + ((mag >> 13) & 1)) >> 13;
			uint32_t r = mag < 0x38800000 ? sub : normal;
			r = mag >= 0x47800000 ? 0x7c00 : r;
			r = mag > 0x7f800000 ? 0x7fff : r;
			d[i] = static_cast<uint16_t>(r | (u >> 31) << 15);
		}
	}
};

namespace plain {
#if defined(__aarch64__)
struct F16 {
	static void widen(float *d, const uint16_t *s, size_t n)
	{
		const __fp16 *h = reinterpret_cast<const __fp16 *>(s);
		for (size_t i = 0; i < n; i++)
			d[i] = h[i];
	}
	static void narrow(uint16_t *d, const float *s, size_t n)
	{
		__fp16 *h = reinterpret_cast<__fp16 *>(d);
		for (size_t i = 0; i < n; i++)
			h[i] = static_cast<__fp16>(s[i]);
	}
};
#else
using F16 = PortableF16;
#endif
#include "reduce_loops.inc"
} // namespace plain

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
namespace avx2 {
struct F16 {
	static void widen(float *d, const uint16_t *s, size_t n)
	{
		size_t i = 0;
		for (; i + 8 <= n; i += 8) {
			_mm256_storeu_ps(
				d + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(s + i))));
		}
		PortableF16::widen(d + i, s + i, n - i);
	}
	static void narrow(uint16_t *d, const float *s, size_t n)
	{
		size_t i = 0;
		for (; i + 8 <= n; i += 8) {
			__m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT);
			_mm_storeu_si128(reinterpret_cast<__m128i *>(d + i), h);
		}
		PortableF16::narrow(d + i, s + i, n - i);
	}
};
#include "reduce_loops.inc"
} // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,f16c,prefer-vector-width=512")
namespace avx512 {
using F16 = avx2::F16;
#include "reduce_loops.inc"
} // namespace avx512
#pragma GCC pop_options
#endif

int isas(Isa out[4])
{
	int n = 0;
	out[n++] = { "baseline", plain::kTable };
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
		out[n++] = { "avx2", avx2::kTable };
		bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
			__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
		if (wide)
			out[n++] = { "avx512", avx512::kTable };
	}
#endif
	return n;
}

} // namespace softexec
