// SPDX-License-Identifier: Apache-2.0
// Launches, driver entry points, sticky errors, NVML.
#include <ddlemu.h>
#include <dlfcn.h>
#include <string.h>

#include "../../runtime/kernels.h"
#include "unit.h"

static void *entry(const char *name)
{
	void *f = nullptr;
	cudaDriverEntryPointQueryResult status;
	OK(cudaGetDriverEntryPoint(name, &f, cudaEnableDefault, &status));
	CHECK((status == cudaDriverEntryPointSuccess) == (f != nullptr));
	return f;
}

TEST(errors_have_names)
{
	CHECK(!strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation"));
	CHECK(!strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument"));
	CHECK(cudaGetErrorName(static_cast<cudaError_t>(12345)) != nullptr);
	CHECK_IS(cudaSetDevice(99), cudaErrorInvalidDevice);
	CHECK_IS(cudaPeekAtLastError(), cudaErrorInvalidDevice);
	CHECK_IS(cudaGetLastError(), cudaErrorInvalidDevice);
	OK(cudaGetLastError());
}

TEST(driver_functions)
{
	CHECK(!entry("cuStreamBatchMemOp"));
	// Virtual memory is there, but no attribute says so: NCCL would use it.
	int supported = -1;
	OK(cudaDeviceGetAttribute(&supported, static_cast<cudaDeviceAttr>(102), 0));
	CHECK(supported == 0 && entry("cuMemCreate"));
	auto get_string = reinterpret_cast<int (*)(int, const char **)>(entry("cuGetErrorString"));
	const char *text;
	CHECK(get_string(2, &text) == 0 && !strcmp(text, "out of memory"));
	auto range = reinterpret_cast<int (*)(uintptr_t *, size_t *, void *)>(entry("cuMemGetAddressRange"));
	char *p;
	uintptr_t base;
	size_t size;
	OK(cudaMalloc(&p, 5000));
	CHECK(range(&base, &size, p + 100) == 0 && base == reinterpret_cast<uintptr_t>(p) && size == 5000);
	CHECK(range(&base, &size, &size) == cudaErrorInvalidValue);
}

static char stub;

// launch_unknown launches a kernel that is registered, but unknown to the executor.
static int launch_unknown(cudaStream_t stream)
{
	static bool registered;
	const ddlemuSoftKernel kernel = { &stub, "noKernelOfNccl" };
	if (!registered)
		ddlemuSoftRegisterKernels(22203, &kernel, 1);
	registered = true;
	cudaFunction_t f;
	OK(cudaGetFuncBySymbol(&f, &stub));
	char args[64] = {};
	size_t size = sizeof args;
	void *extra[] = { reinterpret_cast<void *>(1), args, reinterpret_cast<void *>(2), &size, nullptr };
	auto launch = reinterpret_cast<int (*)(cudaFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned,
		unsigned, unsigned, cudaStream_t, void **, void **)>(entry("cuLaunchKernel"));
	return launch(f, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, extra);
}

// A refused launch changes nothing: the next one starts.
TEST(refused_kernels)
{
	cudaStream_t s;
	OK(cudaStreamCreate(&s));
	CHECK(ddlemuSoftRefuseKernels(1) == 0);
	CHECK(launch_unknown(s) == cudaErrorNotPermitted && launch_unknown(s) == cudaErrorNotPermitted);
	CHECK(ddlemuSoftRefuseKernels(0) == 2);
	OK(cudaGetLastError());
	OK(cudaStreamSynchronize(s));
	CHECK(launch_unknown(s) == 0 && ddlemuSoftRefuseKernels(0) == 2);
	CHECK_IS(cudaStreamSynchronize(s), cudaErrorNotSupported);
}

TEST(failed_kernel_makes_a_sticky_error)
{
	cudaStream_t s;
	cudaEvent_t e;
	OK(cudaStreamCreate(&s));
	OK(cudaEventCreate(&e));
	void *p;
	CHECK(launch_unknown(s) == 0);
	OK(cudaEventRecord(e, s));
	CHECK_IS(cudaStreamSynchronize(s), cudaErrorNotSupported);
	CHECK_IS(cudaMalloc(&p, 1), cudaErrorNotSupported);
	CHECK_IS(cudaGetLastError(), cudaErrorNotSupported);
	CHECK_IS(cudaGetLastError(), cudaErrorNotSupported);
	OK(cudaSetDevice(1));
	OK(cudaGetLastError());
	OK(cudaMalloc(&p, 1));
	// Whoever asks for an event gets the error of the device on which it was recorded.
	CHECK_IS(cudaEventQuery(e), cudaErrorNotSupported);
	CHECK_IS(cudaEventSynchronize(e), cudaErrorNotSupported);
	CHECK_IS(ddlemuSoftEventWait(e, 1000), cudaErrorNotSupported);
	OK(cudaMalloc(&p, 1));
	OK(cudaSetDevice(0));
	OK(cudaDeviceReset());
	OK(cudaMalloc(&p, 1));
}

TEST(unknown_kernels_are_refused)
{
	cudaFunction_t f;
	cudaFuncAttributes at;
	CHECK_IS(cudaGetFuncBySymbol(&f, &f), cudaErrorInvalidDeviceFunction);
	CHECK_IS(cudaFuncGetAttributes(&at, &f), cudaErrorInvalidDeviceFunction);
}

TEST(unknown_nccl_is_refused)
{
	const ddlemuSoftKernel kernel = { &stub, "noKernelOfNccl" };
	CHECK(ddlemuSoftSupportsNccl(22203) && ddlemuSoftSupportsNccl(22907) && !ddlemuSoftSupportsNccl(19900));
	ddlemuSoftRegisterKernels(19900, &kernel, 1);
	void *p;
	CHECK_IS(cudaMalloc(&p, 1), cudaErrorNotSupported);
}

TEST(device_properties)
{
	int n, v;
	OK(cudaGetDeviceCount(&n));
	CHECK(n == 8);
	cudaDeviceProp p;
	OK(cudaGetDeviceProperties(&p, 2));
	CHECK(p.major == 8 && p.minor == 0 && p.warpSize == 32 && p.totalGlobalMem > 0 && strstr(p.name, "software"));
	OK(cudaDeviceGetAttribute(&v, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
	CHECK(v >= 82240); // NCCL needs this much
	OK(cudaDeviceGetAttribute(&v, cudaDevAttrGPUDirectRDMASupported, 0));
	CHECK(v == 1);
	CHECK_IS(cudaDeviceGetAttribute(&v, static_cast<cudaDeviceAttr>(9999), 0), cudaErrorInvalidValue);
	OK(cudaDeviceCanAccessPeer(&v, 0, 1));
	CHECK(v == 1);
	OK(cudaDriverGetVersion(&v));
	CHECK(v == CUDART_VERSION);
}

TEST(nvml_names_the_same_devices)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	CHECK(nvml);
	auto count = reinterpret_cast<int (*)(unsigned *)>(dlsym(nvml, "nvmlDeviceGetCount_v2"));
	auto by_bus = reinterpret_cast<int (*)(const char *, void **)>(dlsym(nvml, "nvmlDeviceGetHandleByPciBusId"));
	auto index = reinterpret_cast<int (*)(void *, unsigned *)>(dlsym(nvml, "nvmlDeviceGetIndex"));
	unsigned n, i;
	CHECK(count(&n) == 0 && n == 8);
	char id[16];
	void *handle;
	OK(cudaDeviceGetPCIBusId(id, sizeof id, 5));
	CHECK(by_bus(id, &handle) == 0 && index(handle, &i) == 0 && i == 5);
	CHECK(by_bus("0000:99:00.0", &handle) != 0);
}

extern "C" {
void __cudaRegisterFunction(void **module, const void *stub, char *function, const char *name, int limit, void *,
	void *, void *, void *, int *);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void **stream);
cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t shared_bytes, cudaStream_t);
}

// A kernel that a module of nvcc brings is refused, and the error's text has its name.
TEST(kernels_of_modules_are_refused_by_name)
{
	static char module_stub;
	__cudaRegisterFunction(
		nullptr, &module_stub, nullptr, "_Z4fillPfi", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
	CHECK(__cudaPushCallConfiguration(dim3(7, 2), dim3(32), 16, nullptr) == 0);
	dim3 grid, block;
	size_t shared_bytes;
	void *stream;
	OK(__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream));
	CHECK(grid.x == 7 && grid.y == 2 && grid.z == 1 && block.x == 32 && shared_bytes == 16 && !stream);
	CHECK_IS(cudaLaunchKernel(&module_stub, grid, block, nullptr, 0, nullptr), cudaErrorNotSupported);
	CHECK_IS(cudaGetLastError(), cudaErrorNotSupported);
	CHECK(strstr(cudaGetErrorString(cudaErrorNotSupported), "fill(float*, int)"));
	CHECK_IS(cudaLaunchKernel(&stub, grid, block, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// PyTorch opens libcuda.so.1, and asks for the functions of the runtime with their version. That library needs the
// runtime as a library: a program that has it compiled in, for the sanitizers, would have two.
TEST(driver_library)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CHECK(driver);
	auto count = reinterpret_cast<int (*)(int *)>(dlsym(driver, "cuDeviceGetCount"));
	auto state = reinterpret_cast<int (*)(int, unsigned *, int *)>(dlsym(driver, "cuDevicePrimaryCtxGetState"));
	auto load = reinterpret_cast<int (*)(void *, const char *)>(dlsym(driver, "cuModuleLoad"));
	int n, active;
	unsigned flags;
	CHECK(count && count(&n) == 0 && n == 8);
	CHECK(state(3, &flags, &active) == 0 && active == 0);
	OK(cudaSetDevice(3));
	void *p;
	OK(cudaMalloc(&p, 1));
	CHECK(state(3, &flags, &active) == 0 && active == 1);
	CHECK(load(&p, "kernel.cubin") == cudaErrorNotSupported);
	CHECK(dlvsym(driver, "cudaMalloc", "libcudart.so.12"));
}
#endif
