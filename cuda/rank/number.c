// SPDX-License-Identifier: Apache-2.0

#include "number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int number_exact_bits(enum data_type type)
{
	switch (type) {
	case TYPE_BFLOAT16:
		return 8;
	case TYPE_HALF:
		return 11;
	case TYPE_FLOAT:
		return 24;
	default:
		return 30;
	}
}

double number_roundoff(enum data_type type)
{
	if (type == TYPE_DOUBLE)
		return 0x1p-53;
	return 1.0 / (double)((int64_t)1 << number_exact_bits(type));
}

uint64_t number_widen(enum data_type type, uint64_t v)
{
	switch (type) {
	case TYPE_INT8:
		return (uint64_t)(int64_t)(int8_t)v;
	case TYPE_UINT8:
		return (uint8_t)v;
	case TYPE_INT32:
		return (uint64_t)(int64_t)(int32_t)v;
	case TYPE_UINT32:
		return (uint32_t)v;
	default:
		return v;
	}
}

void number_store(size_t size, const uint64_t *values, size_t n, void *out)
{
	switch (size) {
	case 1:
		for (size_t k = 0; k < n; k++)
			((uint8_t *)out)[k] = (uint8_t)values[k];
		break;
	case 2:
		for (size_t k = 0; k < n; k++)
			((uint16_t *)out)[k] = (uint16_t)values[k];
		break;
	case 4:
		for (size_t k = 0; k < n; k++)
			((uint32_t *)out)[k] = (uint32_t)values[k];
		break;
	default:
		memcpy(out, values, n * sizeof(*values));
	}
}

static uint32_t float_bits(double v)
{
	float f = (float)v;
	uint32_t bits;
	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static double from_float_bits(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint16_t half_bits(double v)
{
	uint32_t f = float_bits(v);
	uint32_t sign = (f >> 16) & 0x8000;
	if (v == 0)
		return (uint16_t)sign;
	uint32_t exponent = ((f >> 23) & 0xff) - 127 + 15;
	return (uint16_t)(sign | exponent << 10 | ((f >> 13) & 0x3ff));
}

static double from_half_bits(uint16_t bits)
{
	uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
	uint32_t exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
	if (exponent == 0)
		return (sign != 0 ? -0x1p-24 : 0x1p-24) * fraction;
	if (exponent == 0x1f)
		return from_float_bits(sign | 0x7f800000 | fraction << 13);
	return from_float_bits(sign | (exponent - 15 + 127) << 23 | fraction << 13);
}

void number_encode(enum data_type type, const double *values, size_t n, void *out)
{
	switch (type) {
	case TYPE_HALF:
		for (size_t k = 0; k < n; k++)
			((uint16_t *)out)[k] = half_bits(values[k]);
		break;
	case TYPE_BFLOAT16:
		for (size_t k = 0; k < n; k++)
			((uint16_t *)out)[k] = (uint16_t)(float_bits(values[k]) >> 16);
		break;
	case TYPE_FLOAT:
		for (size_t k = 0; k < n; k++)
			((float *)out)[k] = (float)values[k];
		break;
	default:
		memcpy(out, values, n * sizeof(*values));
	}
}

void number_decode(enum data_type type, const void *in, size_t n, double *values)
{
	switch (type) {
	case TYPE_HALF:
		for (size_t k = 0; k < n; k++)
			values[k] = from_half_bits(((const uint16_t *)in)[k]);
		break;
	case TYPE_BFLOAT16:
		for (size_t k = 0; k < n; k++)
			values[k] = from_float_bits((uint32_t)((const uint16_t *)in)[k] << 16);
		break;
	case TYPE_FLOAT:
		for (size_t k = 0; k < n; k++)
			values[k] = ((const float *)in)[k];
		break;
	default:
		memcpy(values, in, n * sizeof(*values));
	}
}

void number_print(enum data_type type, int hex, const void *element, char *out, size_t out_size)
{
	uint64_t bits = 0;
	size_t size = type_size(type);
	memcpy(&bits, element, size);
	if (hex) {
		snprintf(out, out_size, "0x%0*" PRIx64, (int)(2 * size), bits);
	} else if (type_is_float(type)) {
		double v;
		number_decode(type, element, 1, &v);
		snprintf(out, out_size, "%.9g", v);
	} else if (type == TYPE_UINT8 || type == TYPE_UINT32 || type == TYPE_UINT64) {
		snprintf(out, out_size, "%" PRIu64, bits);
	} else {
		snprintf(out, out_size, "%" PRId64, (int64_t)number_widen(type, bits));
	}
}
