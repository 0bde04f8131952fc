// SPDX-License-Identifier: Apache-2.0
//
// Elements of NCCL's data types as they lie in memory (little endian), and their values as doubles or 64-bit words.

#ifndef DDLEMU_RANK_NUMBER_H
#define DDLEMU_RANK_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

// A float type's p: every whole number up to 2^p in magnitude is exact. 30 for double, of which 53 would be.
int number_exact_bits(enum data_type type);

// A float type's unit roundoff.
double number_roundoff(enum data_type type);

// The low bits of v as that integer type holds them, extended to 64 bits by the type's sign.
uint64_t number_widen(enum data_type type, uint64_t v);

// Stores the low size bytes of each value.
void number_store(size_t size, const uint64_t *values, size_t n, void *out);

// Stores doubles as a float type. Each must be zero or a normal number that the type holds exactly.
void number_encode(enum data_type type, const double *values, size_t n, void *out);

// Reads elements of a float type, any bits.
void number_decode(enum data_type type, const void *in, size_t n, double *values);

// Prints one element: in hexadecimal, or as the type's value.
void number_print(enum data_type type, int hex, const void *element, char *out, size_t out_size);

#endif
