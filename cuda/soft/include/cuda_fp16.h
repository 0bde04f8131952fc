// SPDX-License-Identifier: Apache-2.0
// The 16-bit float without arithmetic, for nccl.h and for buffers.
#ifndef DDLEMU_SOFT_CUDA_FP16_H
#define DDLEMU_SOFT_CUDA_FP16_H

typedef struct {
	unsigned short x;
} __half_raw;

#ifdef __cplusplus
struct __half {
	unsigned short bits; // IEEE 754 binary16
};
typedef __half half;
#endif

#endif
