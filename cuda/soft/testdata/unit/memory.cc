// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../../runtime/memory.h"
#include "unit.h"

TEST(allocations_are_aligned_and_separate)
{
	char *small, *other, *large;
	OK(cudaMalloc(&small, 1));
	OK(cudaMalloc(&other, 5000));
	OK(cudaMalloc(&large, 3 << 20));
	CHECK(reinterpret_cast<uintptr_t>(small) % 256 == 0 && reinterpret_cast<uintptr_t>(other) % 256 == 0);
	CHECK(reinterpret_cast<uintptr_t>(large) % (2 << 20) == 0);
	OK(cudaMemset(small, 1, 1));
	OK(cudaMemset(other, 2, 5000));
	OK(cudaMemset(large, 3, 3 << 20));
	CHECK(small[0] == 1 && other[0] == 2 && other[4999] == 2 && large[(3 << 20) - 1] == 3);
	OK(cudaFree(small));
	CHECK_IS(cudaFree(small), cudaErrorInvalidValue);
	CHECK_IS(cudaFree(other + 1), cudaErrorInvalidValue);
	OK(cudaFree(other));
	OK(cudaFree(large));
	OK(cudaFree(nullptr));
	void *nothing = &small;
	OK(cudaMalloc(&nothing, 0));
	CHECK(nothing == nullptr);
}

TEST(out_of_memory_is_an_error)
{
	size_t available, total;
	OK(cudaMemGetInfo(&available, &total));
	CHECK(available > 0 && available <= total);
	void *p;
	CHECK_IS(cudaMalloc(&p, total + 1), cudaErrorMemoryAllocation);
	CHECK_IS(cudaGetLastError(), cudaErrorMemoryAllocation);
	OK(cudaGetLastError());
	OK(cudaMalloc(&p, 4096));
	CHECK_IS(cudaMalloc(&p, total), cudaErrorMemoryAllocation);
}

TEST(freed_memory_goes_back_to_the_host)
{
	const size_t size = 64 << 20;
	char *p;
	OK(cudaMalloc(&p, 1));
	const size_t before = shared_bytes();
	for (int round = 0; round < 5; round++) {
		OK(cudaMalloc(&p, size));
		OK(cudaMemset(p, 1, size));
		CHECK(shared_bytes() >= before + size);
		OK(cudaFree(p));
		CHECK(shared_bytes() < before + (1 << 20));
	}
}

// Memory that a queued kernel uses must not be freed before the kernel is done.
TEST(freeing_waits_for_the_device)
{
	for (bool on_device : { true, false }) {
		char *p;
		OK(on_device ? cudaMalloc(&p, 4096) : cudaMallocHost(&p, 4096));
		cudaStream_t s;
		OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
		Latch latch;
		std::atomic<bool> ran{ false };
		latch.block(s);
		OK(cudaLaunchHostFunc(s, [](void *flag) { *static_cast<std::atomic<bool> *>(flag) = true; }, &ran));
		std::thread later([&] {
			usleep(30000);
			latch.release();
		});
		OK(on_device ? cudaFree(p) : cudaFreeHost(p));
		CHECK(ran);
		later.join();
	}
}

TEST(allocator_does_not_fragment)
{
	std::vector<void *> p(256);
	char *first = nullptr;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < p.size(); i++)
			OK(cudaMalloc(&p[i], (i * 7919 % 300 + 1) << 12));
		if (round == 0)
			first = static_cast<char *>(p[0]);
		CHECK(p[0] == first);
		// Not in the order of allocation.
		for (size_t i = 0; i < p.size(); i++)
			OK(cudaFree(p[i * 101 % p.size()]));
	}
}

TEST(pageable_source_may_change_at_once)
{
	std::vector<char> source(256 << 10, 'a');
	char *p;
	OK(cudaMalloc(&p, source.size()));
	cudaStream_t s;
	OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (size_t size : { size_t(64), source.size() }) {
		Latch latch;
		latch.block(s);
		memset(source.data(), 'a', size);
		OK(cudaMemcpyAsync(p, source.data(), size, cudaMemcpyHostToDevice, s));
		memset(source.data(), 'b', size);
		CHECK_IS(cudaStreamQuery(s), cudaErrorNotReady);
		latch.release();
		OK(cudaStreamSynchronize(s));
		CHECK(p[0] == 'a' && p[size - 1] == 'a');
	}
}

TEST(pinned_copies_are_asynchronous)
{
	const size_t size = 1 << 20;
	char *host, *device;
	OK(cudaHostAlloc(&host, size, cudaHostAllocMapped));
	OK(cudaMalloc(&device, size));
	cudaStream_t s;
	OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	Latch latch;
	latch.block(s);
	OK(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, s));
	OK(cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost, s));
	host[17] = 'x'; // before the copy runs, so it is copied
	latch.release();
	OK(cudaStreamSynchronize(s));
	CHECK(device[17] == 'x');
	char *mapped;
	OK(cudaHostGetDevicePointer(&mapped, host, 0));
	CHECK(mapped == host);
	OK(cudaFreeHost(host));
	CHECK_IS(cudaFreeHost(host), cudaErrorInvalidValue);
}

TEST(copies_are_checked)
{
	char *a, *b, host[64];
	OK(cudaMalloc(&a, 1000));
	OK(cudaMalloc(&b, 1000));
	CHECK_IS(cudaMemcpy(a, b, 1001, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
	CHECK_IS(cudaMemcpy(a + 990, host, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	CHECK_IS(cudaMemset(a + 1, 0, 1000), cudaErrorInvalidValue);
	CHECK_IS(cudaMemset(host, 0, 64), cudaErrorInvalidValue);
	CHECK_IS(cudaMemcpy(host, a, 64, cudaMemcpyHostToDevice), cudaErrorInvalidMemcpyDirection);
	CHECK_IS(cudaMemcpy(a, host, 64, cudaMemcpyDeviceToDevice), cudaErrorInvalidMemcpyDirection);
	CHECK_IS(cudaMemcpy(nullptr, a, 64, cudaMemcpyDefault), cudaErrorInvalidValue);
	OK(cudaMemcpy(host, a, 64, cudaMemcpyDefault));
	OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
}

TEST(pointers_tell_what_they_are)
{
	cudaPointerAttributes at;
	char *device, *pinned, *managed, stack[8];
	OK(cudaSetDevice(1));
	OK(cudaMalloc(&device, 1000));
	OK(cudaMallocHost(&pinned, 1000));
	OK(cudaMallocManaged(&managed, 1000));
	OK(cudaSetDevice(0));
	OK(cudaPointerGetAttributes(&at, device + 999));
	CHECK(at.type == cudaMemoryTypeDevice && at.device == 1 && at.devicePointer == device + 999 && !at.hostPointer);
	OK(cudaPointerGetAttributes(&at, pinned));
	CHECK(at.type == cudaMemoryTypeHost && at.device == 1 && at.hostPointer == pinned &&
		at.devicePointer == pinned);
	OK(cudaPointerGetAttributes(&at, managed));
	CHECK(at.type == cudaMemoryTypeManaged && at.hostPointer == managed);
	OK(cudaPointerGetAttributes(&at, stack));
	CHECK(at.type == cudaMemoryTypeUnregistered && !at.devicePointer);
	OK(cudaHostRegister(stack, sizeof stack, cudaHostRegisterDefault));
	OK(cudaPointerGetAttributes(&at, stack + 3));
	CHECK(at.type == cudaMemoryTypeHost && at.devicePointer == stack + 3);
	CHECK_IS(cudaHostRegister(stack + 2, 2, 0), cudaErrorHostMemoryAlreadyRegistered);
	OK(cudaHostUnregister(stack));
	CHECK_IS(cudaHostUnregister(stack), cudaErrorHostMemoryNotRegistered);
	OK(cudaFree(device));
	OK(cudaPointerGetAttributes(&at, device));
	CHECK(at.type == cudaMemoryTypeUnregistered);
}

TEST(free_async_waits_for_its_turn)
{
	char *p;
	cudaStream_t s;
	OK(cudaStreamCreate(&s));
	OK(cudaMallocAsync(&p, 4096, s));
	Latch latch;
	latch.block(s);
	OK(cudaMemsetAsync(p, 7, 4096, s));
	OK(cudaFreeAsync(p, s));
	cudaPointerAttributes at;
	OK(cudaPointerGetAttributes(&at, p));
	CHECK(at.type == cudaMemoryTypeDevice);
	latch.release();
	OK(cudaStreamSynchronize(s));
	OK(cudaPointerGetAttributes(&at, p));
	CHECK(at.type == cudaMemoryTypeUnregistered);
}

TEST(zeros_take_memory_only_where_there_was_some)
{
	const size_t size = 64 << 20, page = 4096;
	char *p;
	OK(cudaMalloc(&p, size));
	const size_t before = shared_bytes();
	OK(cudaMemset(p, 0, size));
	CHECK(shared_bytes() < before + (1 << 20));
	// Parts of pages, before, between and behind holes.
	const std::vector<size_t> written = { 0, 3 * page + 5, 4 * page, 9000 * page + 7, size - 1 };
	for (size_t at : written)
		p[at] = 'x';
	OK(cudaMemset(p + 1, 0, size - 2));
	OK(cudaDeviceSynchronize());
	CHECK(p[0] == 'x' && p[size - 1] == 'x' && p[3 * page + 5] == 0 && p[4 * page] == 0 && p[9000 * page + 7] == 0);
	OK(cudaMemset(p, 0, 1));
	OK(cudaMemset(p + size - 1, 0, 1));
	CHECK(p[0] == 0 && p[size - 1] == 0 && shared_bytes() < before + (1 << 20));
}

TEST(cleared_host_memory_takes_no_pages)
{
	const size_t size = 64 << 20, page = 4096;
	char *p;
	OK(cudaHostAlloc(reinterpret_cast<void **>(&p), size, cudaHostAllocMapped));
	const size_t before = private_bytes();
	CHECK(ddlemuSoftClearHost(p, size) && private_bytes() < before + (1 << 20));
	memset(p, 'x', size);
	CHECK(private_bytes() > before + size / 2);
	// Parts of pages at both ends.
	CHECK(ddlemuSoftClearHost(p + 5, size - page - 12));
#ifndef __SANITIZE_THREAD__ // its own memory for what was written stays
	CHECK(private_bytes() < before + (1 << 20));
#endif
	CHECK(p[4] == 'x' && p[5] == 0 && p[page] == 0 && p[size - page - 8] == 0 && p[size - page - 7] == 'x');
	// Less than a page.
	CHECK(ddlemuSoftClearHost(p + size - 10, 4) && p[size - 11] == 'x' && p[size - 10] == 0 && p[size - 6] == 'x');
	// Other memory is left alone.
	CHECK(!ddlemuSoftClearHost(p + size - 10, 11) && p[size - 1] == 'x');
	char other[2 * page];
	CHECK(!ddlemuSoftClearHost(other, sizeof other));
	OK(cudaFreeHost(p));
}

TEST(device_reset_frees_everything)
{
	char *p;
	const size_t before = shared_bytes();
	OK(cudaMalloc(&p, 8 << 20));
	OK(cudaMemset(p, 1, 8 << 20));
	cudaStream_t s;
	OK(cudaStreamCreate(&s));
	OK(cudaDeviceReset());
	CHECK(shared_bytes() < before + (1 << 20));
	CHECK_IS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
	CHECK_IS(cudaFree(p), cudaErrorInvalidValue);
	OK(cudaMalloc(&p, 4096));
}
