// SPDX-License-Identifier: Apache-2.0
// bfloat16 as storage only: enough for nccl.h, which offers ncclBfloat16 when this type exists; no arithmetic.
#ifndef DDLEMU_SOFT_CUDA_BF16_H
#define DDLEMU_SOFT_CUDA_BF16_H

#define __CUDA_BF16_TYPES_EXIST__

#ifdef __cplusplus
struct __nv_bfloat16 {
	unsigned short bits; // the upper half of a binary32
};
#endif

#endif
