// SPDX-License-Identifier: Apache-2.0
// What the runtime in the NCCL for guests does differently: its GPUs access all memory of the process.
#include <string.h>

#include <vector>

#include "../unit/unit.h"

TEST(pageable_memory_has_a_device_pointer)
{
	int value = 0;
	OK(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess, 0));
	CHECK(value == 1);
	cudaDeviceProp properties;
	OK(cudaGetDeviceProperties(&properties, 0));
	CHECK(properties.pageableMemoryAccess == 1);
	std::vector<char> memory(100);
	cudaPointerAttributes at;
	OK(cudaPointerGetAttributes(&at, memory.data()));
	CHECK(at.type == cudaMemoryTypeUnregistered && at.devicePointer == memory.data() &&
		at.hostPointer == memory.data());
}

// A copy within a device reads its source when the stream gets there, and not before.
TEST(pageable_copies_keep_order)
{
	for (size_t size : { 100, 1000000 }) {
		std::vector<char> a(size, 1), b(size, 2), c(size, 3);
		cudaStream_t s;
		Latch latch;
		OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		latch.block(s);
		OK(cudaMemcpyAsync(b.data(), a.data(), size, cudaMemcpyDeviceToDevice, s));
		OK(cudaMemcpyAsync(c.data(), b.data(), size, cudaMemcpyDeviceToDevice, s));
		CHECK(b[0] == 2 && c[0] == 3);
		latch.release();
		OK(cudaStreamSynchronize(s));
		CHECK(b == a && c == a);
		OK(cudaStreamDestroy(s));
	}
}

TEST(other_directions_are_checked_as_before)
{
	char *device, host[64];
	OK(cudaMalloc(reinterpret_cast<void **>(&device), 64));
	CHECK_IS(cudaMemcpy(host, device, 64, cudaMemcpyHostToDevice), cudaErrorInvalidMemcpyDirection);
	CHECK_IS(cudaMemcpy(device, host, 65, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
	OK(cudaMemcpy(device, host, 64, cudaMemcpyDeviceToDevice));
	OK(cudaFree(device));
}
