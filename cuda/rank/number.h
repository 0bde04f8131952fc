// SPDX-License-Identifier: Apache-2.0
//
// Conversion between elements of NCCL's data types in memory (little endian) and doubles or 64-bit words.

#ifndef DDLEMU_RANK_NUMBER_H
#define DDLEMU_RANK_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

// Returns p of a float type: every integer up to 2^p in magnitude is exact. For double it returns 30, although 53 is
// correct.
int number_exact_bits(enum data_type type);

// Returns the unit roundoff of a float type.
double number_roundoff(enum data_type type);

// Converts v to an integer type, and back to 64 bits with sign extension if the type is signed.
uint64_t number_widen(enum data_type type, uint64_t v);

// Stores the low size bytes of each value.
void number_store(size_t size, const uint64_t *values, size_t n, void *out);

// Stores doubles as a float type. Each must be zero or a normal number that is exact in the type.
void number_encode(enum data_type type, const double *values, size_t n, void *out);

// Converts elements of a float type to doubles. All bit patterns are valid.
void number_decode(enum data_type type, const void *in, size_t n, double *values);

// Prints one element, in hexadecimal or as a number.
void number_print(enum data_type type, int hex, const void *element, char *out, size_t out_size);

#endif
