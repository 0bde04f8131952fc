// SPDX-License-Identifier: Apache-2.0
// Errors: the last error of each thread, and for each device the error of a kernel that failed (a sticky error).
#pragma once

#include <cuda_runtime_api.h>

#define SOFT_API extern "C" __attribute__((visibility("default")))

namespace soft {

// set_error stores err as the calling thread's last error, unless it is cudaSuccess, and returns it.
cudaError_t set_error(cudaError_t err);

// enter is the first call of every function that uses a device. If it returns an error, the function must return that
// error: the initialisation failed, this is a forked child, or a kernel has failed on the current device.
cudaError_t enter();

// unsupported sets and returns cudaErrorNotSupported, whose text then contains the name in the calling thread. At the
// first call with a name it prints a line on stderr.
cudaError_t unsupported(const char *name);

// print_error prints one line on stderr, "ddlemu software CUDA: ...".
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *error_name(int err);
const char *error_text(int err);

} // namespace soft

// NOT_SUPPORTED defines a function that ignores its parameters and returns cudaErrorNotSupported. It is there because
// NCCL's archive or PyTorch links against it.
#define NOT_SUPPORTED(name) \
	SOFT_API cudaError_t name(void) { return soft::unsupported(#name); }
