// SPDX-License-Identifier: Apache-2.0
// The 8-bit floats without arithmetic. nccl.h of NCCL 2.24 and later includes this header.
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
