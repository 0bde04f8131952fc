// SPDX-License-Identifier: Apache-2.0
// Error state of the software CUDA: per thread the last error, per device the error of a kernel that failed.
#pragma once

#include <cuda_runtime_api.h>

#define SOFT_API extern "C" __attribute__((visibility("default")))

namespace soft {

// result notes err as the calling thread's last error, unless it is cudaSuccess, and returns it.
cudaError_t result(cudaError_t err);

// enter is called first by every function that touches a device. It returns what that function must return at once:
// a failed initialisation, a use after fork, the error of a kernel that failed earlier on the current device.
cudaError_t enter();

// unsupported says once per name on stderr that the software CUDA has no such thing, and returns
// cudaErrorNotSupported, noted as the last error.
cudaError_t unsupported(const char *name);

// complain prints one line on stderr, "ddlemu software CUDA: ...".
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *error_name(int err);
const char *error_text(int err);

} // namespace soft
