// SPDX-License-Identifier: Apache-2.0
//
// A variable of NCCL that switches on what the software CUDA does not have. NCCL does not ask whether a GPU has it, and
// would call functions that are not there.

#include <stdlib.h>

#include "error.h"

namespace soft {
namespace {

constexpr char kCuMem[] = "NCCL_CUMEM_ENABLE";

// NCCL reads the variable when it makes a communicator, which is later. The value 0 also keeps it from that of a file.
__attribute__((constructor)) void refuse_cumem()
{
	const char *text = getenv(kCuMem);
	if (text == nullptr || strtoll(text, nullptr, 0) <= 0)
		return;
	print_error("%s=%s has no effect: there is no cuMem here", kCuMem, text);
	setenv(kCuMem, "0", 1);
}

} // namespace
} // namespace soft
