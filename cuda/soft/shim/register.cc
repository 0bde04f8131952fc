// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: registers its version and its kernels with the software CUDA when the library is loaded. setup
// generates the table and the stubs, and defines DDLEMU_NCCL_VERSION (22203 for 2.22.3).
#include "../runtime/kernels.h"

extern "C" const ddlemuSoftKernel ddlemu_kernel_table[];
extern "C" const size_t ddlemu_kernel_count;

__attribute__((constructor)) static void register_kernels()
{
	ddlemuSoftRegisterKernels(DDLEMU_NCCL_VERSION, ddlemu_kernel_table, ddlemu_kernel_count);
}
