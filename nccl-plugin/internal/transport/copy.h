// SPDX-License-Identifier: Apache-2.0
//
// Copies whose order other threads and processors rely on.
#ifndef DDLEMU_COPY_H
#define DDLEMU_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define DDLEMU_LINE 128

typedef uint64_t ddlemu_vec __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t ddlemu_word __attribute__((aligned(1), may_alias));

// ordered_copy copies n bytes, which become visible in ascending order. The receivers of LL and LL128 poll the buffer:
// they must not see an 8-byte flag (LL), or the last 8 bytes of a 128-byte line (LL128), before the data in front of
// it. memcpy promises no order, and x86's string instructions have none. `to` must be aligned to 8 bytes for LL and to
// 16 bytes for LL128, as NCCL's buffers are.
static inline void ordered_copy(char *to, const char *from, size_t n)
{
	while (n >= DDLEMU_LINE) {
		ddlemu_vec v[8];
		for (int i = 0; i < 8; i++)
			v[i] = *(const ddlemu_vec *)(from + 16 * i);
		// The compiler does not move a store across a fence, and x86 makes stores visible in their order.
		for (int i = 0; i < 8; i++) {
#if defined(__x86_64__)
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
			__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
			*(volatile ddlemu_vec *)(to + 16 * i) = v[i];
		}
		to += DDLEMU_LINE;
		from += DDLEMU_LINE;
		n -= DDLEMU_LINE;
	}
	for (; n >= 8; n -= 8, to += 8, from += 8) {
		uint64_t w;
		memcpy(&w, from, 8);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		*(volatile ddlemu_word *)to = w;
	}
	for (; n > 0; n--)
		*(volatile char *)to++ = *from++;
}

// Copies of this many bytes and more bypass the writer's cache. A modified line in one core's cache is slow to read for
// a core that shares no cache with it: half the throughput of reading memory. If the cores share a cache, bypassing it
// costs a twelfth of the throughput. See docs/performance.md.
#define DDLEMU_STREAM (32 << 10)

// stream_copy copies n bytes for another core to read. As with memcpy, a release store after it covers them.
static inline void stream_copy(char *to, const char *from, size_t n)
{
// The thread sanitizer does not see streaming stores.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	if (n >= DDLEMU_STREAM) {
		size_t head = -(uintptr_t)to % 64; // bytes up to the next cache line
		memcpy(to, from, head);
		to += head, from += head, n -= head;
		for (; n >= 64; n -= 64, to += 64, from += 64) {
			__m128i v[4];
			memcpy(v, from, sizeof v);
			for (int i = 0; i < 4; i++)
				_mm_stream_si128((__m128i *)to + i, v[i]);
		}
		_mm_sfence(); // x86 does not order streaming stores before later stores
	}
#endif
	memcpy(to, from, n);
}

#endif
