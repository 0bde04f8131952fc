// SPDX-License-Identifier: Apache-2.0
// Functions that code compiled by nvcc calls when it is loaded. NCCL's archive links against them, but the relinked
// NCCL has no such code. Device code cannot be run, so these functions store nothing.
#include "error.h"

SOFT_API void **__cudaRegisterFatBinary(void *)
{
	static void *handle;
	return &handle;
}
SOFT_API void __cudaRegisterFatBinaryEnd(void **) {}
SOFT_API void __cudaUnregisterFatBinary(void **) {}
SOFT_API void __cudaRegisterFunction(void) {}
SOFT_API void __cudaRegisterVar(void) {}
SOFT_API char __cudaInitModule(void **) { return 0; }
SOFT_API cudaError_t __cudaPopCallConfiguration(void) { return soft::unsupported("a kernel launch with <<<...>>>"); }
