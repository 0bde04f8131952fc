// SPDX-License-Identifier: Apache-2.0
// Functions that code compiled by nvcc calls when it is loaded, and for each launch with <<<...>>>. The relinked NCCL
// has no such code, PyTorch has. Its device code cannot be run: only the kernels' names are kept, for error messages.
#include "module.h"

#include <cxxabi.h>
#include <stdlib.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "error.h"

namespace soft {
namespace {

// The name of each kernel, which its module keeps, by the address of its stub.
struct Names {
	std::mutex mu;
	std::unordered_map<const void *, const char *> of;
};

Names &names()
{
	static auto *n = new Names;
	return *n;
}

// name_of returns the name of the kernel of a stub, "" if no module has it.
std::string name_of(const void *stub)
{
	const char *mangled = nullptr;
	{
		Names &n = names();
		std::lock_guard<std::mutex> lock(n.mu);
		auto it = n.of.find(stub);
		if (it == n.of.end())
			return "";
		mangled = it->second;
	}
	char *plain = abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr);
	std::string name = plain ? plain : mangled;
	free(plain);
	return name;
}

} // namespace

// The configuration of a launch, in CUDA's layout.
struct Dimensions {
	unsigned x, y, z;
};
struct Configuration {
	Dimensions grid, block;
	size_t shared_bytes;
	void *stream;
};

// A stub takes the configuration that its caller has just pushed, in the same thread.
static thread_local Configuration pushed;

cudaError_t refuse_kernel(const void *stub)
{
	const std::string name = name_of(stub);
	if (name.empty())
		return set_error(cudaErrorInvalidDeviceFunction);
	return unsupported(("the kernel " + name).c_str());
}

} // namespace soft

using namespace soft;

SOFT_API void **__cudaRegisterFatBinary(void *)
{
	static void *handle;
	return &handle;
}
SOFT_API void __cudaRegisterFatBinaryEnd(void **) {}
SOFT_API void __cudaUnregisterFatBinary(void **) {}
SOFT_API void __cudaRegisterFunction(
	void **, const void *stub, char *, const char *name, int, void *, void *, void *, void *, int *)
{
	Names &n = names();
	std::lock_guard<std::mutex> lock(n.mu);
	n.of[stub] = name;
}
SOFT_API void __cudaRegisterVar(void) {}
SOFT_API char __cudaInitModule(void **) { return 0; }

SOFT_API unsigned __cudaPushCallConfiguration(Dimensions grid, Dimensions block, size_t shared_bytes, void *stream)
{
	pushed = { grid, block, shared_bytes, stream };
	return 0;
}

// It succeeds, because a stub that gets an error here launches nothing and says nothing.
SOFT_API cudaError_t __cudaPopCallConfiguration(
	Dimensions *grid, Dimensions *block, size_t *shared_bytes, void **stream)
{
	*grid = pushed.grid;
	*block = pushed.block;
	*shared_bytes = pushed.shared_bytes;
	*stream = pushed.stream;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaLaunchKernel(const void *stub) { return refuse_kernel(stub); }
SOFT_API cudaError_t cudaLaunchKernelExC(const void *, const void *stub, void **) { return refuse_kernel(stub); }
SOFT_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *, const void *stub, int, size_t, unsigned)
{
	return refuse_kernel(stub);
}

NOT_SUPPORTED(cudaGetSymbolAddress)
NOT_SUPPORTED(cudaMemcpyToSymbol)

// No profiler is attached, so these have no effect, as in CUDA.
SOFT_API cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
SOFT_API cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
