// SPDX-License-Identifier: Apache-2.0
// bfloat16 without arithmetic. nccl.h defines ncclBfloat16 if this type exists.
#ifndef DDLEMU_SOFT_CUDA_BF16_H
#define DDLEMU_SOFT_CUDA_BF16_H

#define __CUDA_BF16_TYPES_EXIST__

#ifdef __cplusplus
struct __nv_bfloat16 {
	unsigned short bits; // the upper half of a binary32
};
#endif

#endif
