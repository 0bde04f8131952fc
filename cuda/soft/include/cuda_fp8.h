// SPDX-License-Identifier: Apache-2.0
// The 8-bit floating types as storage only: nccl.h of 2.24 and later includes this header; no arithmetic.
#ifndef DDLEMU_SOFT_CUDA_FP8_H
#define DDLEMU_SOFT_CUDA_FP8_H

#define __CUDA_FP8_TYPES_EXIST__

#ifdef __cplusplus
struct __nv_fp8_e4m3 {
	unsigned char bits;
};
struct __nv_fp8_e5m2 {
	unsigned char bits;
};
#endif

#endif
