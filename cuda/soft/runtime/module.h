// SPDX-License-Identifier: Apache-2.0
// Kernels of modules that nvcc has compiled, such as PyTorch's. They cannot be run.
#pragma once

#include <cuda_runtime_api.h>

namespace soft {

// refuse_kernel returns the error of a call that needs the code of a stub's kernel. Its text names the kernel.
cudaError_t refuse_kernel(const void *stub);

} // namespace soft
