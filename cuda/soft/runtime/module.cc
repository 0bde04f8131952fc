// SPDX-License-Identifier: Apache-2.0
// What code compiled by nvcc calls when it is loaded. A relinked NCCL holds none of it; these functions are here
// because the archive links against them. Device code that registers itself can't be run, so nothing is kept.
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
