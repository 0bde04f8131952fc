// SPDX-License-Identifier: Apache-2.0
// Compares the 16-bit multiplication of a communicator with one rank (glue/onerank.cc) with the compiler's own
// arithmetic, for every half and every bfloat16 and factors of all magnitudes.
#include "../glue/onerank.cc"

#include <stdio.h>

static int bad;

static void report(const char *type, unsigned a, unsigned b, unsigned got, unsigned want)
{
	if (bad++ < 10)
		fprintf(stderr, "%s %04x * %04x: got %04x, want %04x\n", type, a, b, got, want);
}

static void check_half(uint16_t a, uint16_t b)
{
	_Float16 x, y;
	memcpy(&x, &a, 2);
	memcpy(&y, &b, 2);
	const _Float16 product = x * y;
	uint16_t want;
	memcpy(&want, &product, 2);
	const uint16_t got = multiply(Half{ a }, Half{ b }).bits;
	const bool nan = (want & 0x7fff) > 0x7c00;
	if (nan ? (got & 0x7fff) <= 0x7c00 : got != want)
		report("half", a, b, got, want);
}

// The nearest bfloat16 is found by trying the neighbours: slow, and nothing like the code under test.
static void check_brain(uint16_t a, uint16_t b)
{
	const float exact = widen(Brain{ a }) * widen(Brain{ b });
	const uint16_t got = multiply(Brain{ a }, Brain{ b }).bits;
	if (exact != exact) {
		if ((got & 0x7fff) <= 0x7f80)
			report("bfloat16", a, b, got, 0x7fff);
		return;
	}
	uint32_t wide;
	memcpy(&wide, &exact, sizeof wide);
	const uint16_t down = static_cast<uint16_t>(wide >> 16), up = static_cast<uint16_t>(down + 1);
	if (isinf(exact)) {
		if (got != down)
			report("bfloat16", a, b, got, down);
		return;
	}
	// The distance to infinity counts as that to the number that would be next.
	const double below = fabs(static_cast<double>(exact) - widen(Brain{ down }));
	const double next = isinf(widen(Brain{ up })) ? ldexp(1, 128) : fabs(static_cast<double>(widen(Brain{ up })));
	const double above = fabs(next - fabs(static_cast<double>(exact)));
	const uint16_t want = below < above || (below == above && down % 2 == 0) ? down : up;
	if (got != want)
		report("bfloat16", a, b, got, want);
}

int main()
{
	const uint16_t factors[] = { 0x0000, 0x0001, 0x03ff, 0x0400, 0x1234, 0x3555, 0x3800, 0x3c00, 0x3c01, 0x4321,
		0x7bff, 0x7c00, 0x7e00, 0x8001, 0xb800, 0xc2ab, 0xfbff, 0x3f80, 0x3eab, 0x0080, 0x7f7f };
	for (uint16_t factor : factors)
		for (uint32_t a = 0; a < 65536; a++) {
			check_half(static_cast<uint16_t>(a), factor);
			check_brain(static_cast<uint16_t>(a), factor);
		}
	if (bad)
		fprintf(stderr, "%d wrong\n", bad);
	return bad != 0;
}
