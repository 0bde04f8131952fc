// SPDX-License-Identifier: Apache-2.0

#include "pattern.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "number.h"

// Elements per block: the accumulators (two arrays of doubles) stay in the first-level cache.
enum { BLOCK = 1024 };

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static const uint64_t odd_step = 0x9e3779b97f4a7c15u; // 2^64 over the golden ratio

static uint64_t stream_of(const struct pattern *p, int rank)
{
	return mix(mix(p->seed + odd_step) + (uint64_t)rank + 1);
}

static uint64_t bits_at(uint64_t stream, uint64_t index) { return mix(stream + (index + 1) * odd_step); }

// Returns an integer 0 ... limit-1 from 64 random bits. limit < 2^32.
static uint64_t below(uint64_t bits, uint64_t limit) { return ((bits >> 32) * limit) >> 32; }

// Returns the largest magnitude of a float input. If there are more than 2^p ranks, it is 0 for the last ones.
static int64_t float_limit(const struct pattern *p, int rank)
{
	int64_t whole = (int64_t)1 << number_exact_bits(p->type);
	if (p->op == OP_MIN || p->op == OP_MAX)
		return whole;
	if (p->ranks <= whole)
		return whole / p->ranks;
	return rank < whole ? 1 : 0;
}

static double factor(const struct pattern *p, int rank, uint64_t index, uint64_t bits)
{
	int shift = (int)(((uint64_t)rank + (uint64_t)p->ranks - index % (uint64_t)p->ranks) % (uint64_t)p->ranks);
	static const double halves[] = { 0.5, 1, 2 };
	double magnitude = shift == 0 ? (double)(1 + below(bits, 127)) : shift <= 7 ? halves[below(bits, 3)] : 1;
	return (bits & 1) != 0 ? -magnitude : magnitude;
}

// Reduces rank's inputs into acc, and adds their magnitudes to sizes. begin: this is the first rank.
static void reduce_floats(
	const struct pattern *p, int rank, uint64_t first, size_t n, int begin, double *acc, double *sizes)
{
	uint64_t stream = stream_of(p, rank);
	int64_t limit = float_limit(p, rank);
	for (size_t k = 0; k < n; k++) {
		uint64_t bits = bits_at(stream, first + k);
		double v = p->op == OP_PROD ? factor(p, rank, first + k, bits)
					    : (double)((int64_t)below(bits, 2 * (uint64_t)limit + 1) - limit);
		sizes[k] = (begin ? 0 : sizes[k]) + fabs(v);
		if (begin) {
			acc[k] = v;
			continue;
		}
		switch (p->op) {
		case OP_SUM:
		case OP_AVG:
			acc[k] += v;
			break;
		case OP_PROD:
			acc[k] *= v;
			break;
		case OP_MAX:
			acc[k] = v > acc[k] ? v : acc[k];
			break;
		case OP_MIN:
			acc[k] = v < acc[k] ? v : acc[k];
			break;
		}
	}
}

// Returns an integer input as 64 bits, with sign extension if the type is signed.
static uint64_t int_value(const struct pattern *p, uint64_t bits)
{
	if (p->op != OP_AVG)
		return number_widen(p->type, bits);
	uint64_t most = (((uint64_t)1 << (8 * type_size(p->type) - 1)) - 1) / (uint64_t)p->ranks;
	return (uint64_t)(((unsigned __int128)bits * (most + 1)) >> 64);
}

static uint64_t combine_ints(const struct pattern *p, uint64_t a, uint64_t b)
{
	int is_signed = p->type == TYPE_INT8 || p->type == TYPE_INT32 || p->type == TYPE_INT64;
	int less = is_signed ? (int64_t)a < (int64_t)b : a < b;
	switch (p->op) {
	case OP_SUM:
	case OP_AVG:
		return a + b;
	case OP_PROD:
		return a * b;
	case OP_MAX:
		return less ? b : a;
	case OP_MIN:
		return less ? a : b;
	}
	return 0;
}

static void reduce_ints(const struct pattern *p, int rank, uint64_t first, size_t n, int begin, uint64_t *acc)
{
	uint64_t stream = stream_of(p, rank);
	for (size_t k = 0; k < n; k++) {
		uint64_t v = int_value(p, bits_at(stream, first + k));
		acc[k] = begin ? v : combine_ints(p, acc[k], v);
	}
}

static void input_block(const struct pattern *p, int rank, uint64_t first, size_t n, void *out)
{
	if (p->reduced && type_is_float(p->type)) {
		double values[BLOCK], sizes[BLOCK];
		reduce_floats(p, rank, first, n, 1, values, sizes);
		number_encode(p->type, values, n, out);
		return;
	}
	uint64_t values[BLOCK];
	if (p->reduced) {
		reduce_ints(p, rank, first, n, 1, values);
	} else {
		uint64_t stream = stream_of(p, rank);
		for (size_t k = 0; k < n; k++)
			values[k] = bits_at(stream, first + k);
	}
	number_store(type_size(p->type), values, n, out);
}

void pattern_input(const struct pattern *p, int rank, uint64_t first, size_t n, void *out)
{
	size_t size = type_size(p->type);
	for (size_t done = 0; done < n; done += BLOCK) {
		size_t some = n - done < BLOCK ? n - done : BLOCK;
		input_block(p, rank, first + done, some, (char *)out + done * size);
	}
}

// Counts the elements whose bits differ.
static void compare_bits(
	const struct pattern *p, const void *want, const void *got, size_t n, uint64_t at, struct mismatch *m)
{
	size_t size = type_size(p->type);
	if (memcmp(want, got, n * size) == 0)
		return;
	for (size_t k = 0; k < n; k++) {
		const char *w = (const char *)want + k * size, *g = (const char *)got + k * size;
		if (memcmp(w, g, size) == 0)
			continue;
		if (m->wrong++ > 0)
			continue;
		m->first = at + k;
		number_print(p->type, !p->reduced, g, m->got, sizeof(m->got));
		number_print(p->type, !p->reduced, w, m->want, sizeof(m->want));
	}
}

void pattern_check_moved(
	const struct pattern *p, int source, uint64_t first, size_t n, const void *got, uint64_t at, struct mismatch *m)
{
	size_t size = type_size(p->type);
	uint64_t want[BLOCK]; // large enough for BLOCK elements of any type
	for (size_t done = 0; done < n; done += BLOCK) {
		size_t some = n - done < BLOCK ? n - done : BLOCK;
		input_block(p, source, first + done, some, want);
		compare_bits(p, want, (const char *)got + done * size, some, at + done, m);
	}
}

// Counts the elements that differ from want by more than the tolerance, which is 0 for exact results. A NaN is wrong.
static void compare_floats(const struct pattern *p, const double *want, const double *sizes, const void *got, size_t n,
	uint64_t at, struct mismatch *m)
{
	int exact = p->op != OP_AVG || (p->ranks & (p->ranks - 1)) == 0;
	double scale = exact ? 0 : (p->ranks + 3) * number_roundoff(p->type) / p->ranks;
	double values[BLOCK];
	number_decode(p->type, got, n, values);
	for (size_t k = 0; k < n; k++) {
		if (fabs(values[k] - want[k]) <= scale * sizes[k])
			continue;
		if (m->wrong++ > 0)
			continue;
		m->first = at + k;
		snprintf(m->got, sizeof(m->got), "%.9g", values[k]);
		snprintf(m->want, sizeof(m->want), "%.9g", want[k]);
	}
}

static void check_block(
	const struct pattern *p, uint64_t first, size_t n, const void *got, uint64_t at, struct mismatch *m)
{
	if (type_is_float(p->type)) {
		double want[BLOCK], sizes[BLOCK];
		for (int r = 0; r < p->ranks; r++)
			reduce_floats(p, r, first, n, r == 0, want, sizes);
		if (p->op == OP_AVG)
			for (size_t k = 0; k < n; k++)
				want[k] /= p->ranks;
		compare_floats(p, want, sizes, got, n, at, m);
		return;
	}
	uint64_t acc[BLOCK], want[BLOCK];
	for (int r = 0; r < p->ranks; r++)
		reduce_ints(p, r, first, n, r == 0, acc);
	if (p->op == OP_AVG)
		for (size_t k = 0; k < n; k++)
			acc[k] /= (uint64_t)p->ranks;
	number_store(type_size(p->type), acc, n, want);
	compare_bits(p, want, got, n, at, m);
}

void pattern_check_reduced(
	const struct pattern *p, uint64_t first, size_t n, const void *got, uint64_t at, struct mismatch *m)
{
	size_t size = type_size(p->type);
	for (size_t done = 0; done < n; done += BLOCK) {
		size_t some = n - done < BLOCK ? n - done : BLOCK;
		check_block(p, first + done, some, (const char *)got + done * size, at + done, m);
	}
}
