// SPDX-License-Identifier: Apache-2.0
// Virtual memory and multicast objects of the driver, as NCCL uses them for NVLink SHARP.
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>

#include "unit.h"

using Handle = unsigned long long;
constexpr size_t kSize = 64 << 20, kGranularity = 2 << 20;

struct Prop {
	int type, handle_types, location_type, device;
	void *windows;
	unsigned char flags[8];
};
struct MulticastProp {
	unsigned devices;
	size_t size;
	unsigned long long handle_types, flags;
};

// entry returns a function of the driver, or nullptr if it has none of that name.
template <class F>
static F entry(const char *name)
{
	void *function;
	cudaDriverEntryPointQueryResult found;
	OK(cudaGetDriverEntryPoint(name, &function, 0, &found));
	CHECK((found == cudaDriverEntryPointSuccess) == (function != nullptr));
	return reinterpret_cast<F>(function);
}

#define DRIVER(name, ...) auto name = entry<cudaError_t (*)(__VA_ARGS__)>(#name)

static int multicast_supported()
{
	int value;
	OK(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(132), 0));
	return value;
}

TEST(gpus_before_hopper_have_no_multicast)
{
	CHECK(multicast_supported() == 0);
	DRIVER(cuMulticastCreate, unsigned long long *, const MulticastProp *);
	const MulticastProp prop = { 2, 2 << 20, 1, 0 };
	unsigned long long handle;
	CHECK_IS(cuMulticastCreate(&handle, &prop), cudaErrorNotSupported);
}

TEST(unknown_capability_is_an_error)
{
	cudaDeviceProp p;
	int value;
	for (const char *bad : { "9.9", "9", "9.0x", "hopper" }) {
		setenv("DDLEMU_SOFT_CAPABILITY", bad, 1);
		CHECK_IS(cudaGetDeviceProperties(&p, 0), cudaErrorNotSupported);
		CHECK_IS(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), cudaErrorNotSupported);
	}
	setenv("DDLEMU_SOFT_CAPABILITY", "8.6", 1);
	OK(cudaGetDeviceProperties(&p, 0));
	CHECK(p.major == 8 && p.minor == 6);
}

static void use_hopper()
{
	setenv("DDLEMU_SOFT_CAPABILITY", "9.0", 1);
	CHECK(multicast_supported() == 1);
	cudaDeviceProp p;
	OK(cudaGetDeviceProperties(&p, 0));
	CHECK(p.major == 9 && p.minor == 0);
	int virtual_memory;
	OK(cudaDeviceGetAttribute(&virtual_memory, static_cast<cudaDeviceAttr>(102), 0));
	CHECK(virtual_memory == 0); // so NCCL allocates nothing else with it
}

// map creates memory of device 1 and maps it. *handle is its handle.
static char *map(Handle *handle)
{
	DRIVER(cuMemCreate, Handle *, size_t, const Prop *, unsigned long long);
	DRIVER(cuMemAddressReserve, uintptr_t *, size_t, size_t, uintptr_t, unsigned long long);
	DRIVER(cuMemMap, uintptr_t, size_t, size_t, Handle, unsigned long long);
	DRIVER(cuMemSetAccess, uintptr_t, size_t, const void *, size_t);
	const Prop prop = { 1, 1, 1, 1, nullptr, {} };
	const int access[3] = { 1, 1, 3 };
	uintptr_t at;
	CHECK_IS(cuMemCreate(handle, kSize + 1, &prop, 0), cudaErrorInvalidValue);
	OK(cuMemCreate(handle, kSize, &prop, 0));
	CHECK_IS(cuMemMap(kGranularity, kSize, 0, *handle, 0), cudaErrorInvalidValue);
	OK(cuMemAddressReserve(&at, kSize, kGranularity, 0, 0));
	CHECK(at % kGranularity == 0);
	CHECK_IS(cuMemSetAccess(at, kSize, access, 1), cudaErrorInvalidValue);
	OK(cuMemMap(at, kSize, 0, *handle, 0));
	CHECK_IS(cuMemMap(at, kSize, 0, *handle, 0), cudaErrorInvalidValue);
	OK(cuMemSetAccess(at, kSize, access, 1));
	return reinterpret_cast<char *>(at);
}

TEST(virtual_memory)
{
	use_hopper();
	DRIVER(cuMemUnmap, uintptr_t, size_t);
	DRIVER(cuMemRelease, Handle);
	DRIVER(cuMemAddressFree, uintptr_t, size_t);
	Handle handle;
	char *p = map(&handle);
	const size_t before = shared_bytes();
	OK(cudaMemset(p, 0, kSize));
	CHECK(shared_bytes() < before + (1 << 20)); // clearing untouched memory takes none of the host's
	p[kSize - 1] = 'x';
	cudaPointerAttributes at;
	OK(cudaPointerGetAttributes(&at, p + 5));
	CHECK(at.type == cudaMemoryTypeDevice && at.device == 1);
	char got = 0;
	OK(cudaMemcpy(&got, p + kSize - 1, 1, cudaMemcpyDeviceToHost));
	CHECK(got == 'x');
	OK(cudaMemset(p, 0, kSize));
	CHECK(p[kSize - 1] == 0);
	OK(cudaMemset(p, 1, kSize));
	CHECK(shared_bytes() >= before + kSize / 2);

	const uintptr_t base = reinterpret_cast<uintptr_t>(p);
	DRIVER(cuMemRetainAllocationHandle, Handle *, uintptr_t);
	Handle same;
	OK(cuMemRetainAllocationHandle(&same, base + kSize - 1));
	CHECK(same == handle);
	CHECK_IS(cuMemRetainAllocationHandle(&same, base + kSize), cudaErrorInvalidValue);
	OK(cuMemRelease(handle));
	OK(cuMemRelease(handle));
	CHECK(p[0] == 1); // the mapping keeps the memory
	CHECK_IS(cuMemRelease(handle), cudaErrorInvalidValue);
	OK(cuMemUnmap(base, kSize));
	CHECK(shared_bytes() < before + (1 << 20));
	CHECK_IS(cuMemUnmap(base, kSize), cudaErrorInvalidValue);
	OK(cuMemAddressFree(base, kSize));
	CHECK_IS(cuMemAddressFree(base, kSize), cudaErrorInvalidValue);
	OK(cudaPointerGetAttributes(&at, p));
	CHECK(at.type == cudaMemoryTypeUnregistered);
}

TEST(multicast)
{
	use_hopper();
	DRIVER(cuMulticastCreate, Handle *, const MulticastProp *);
	DRIVER(cuMulticastAddDevice, Handle, int);
	DRIVER(cuMulticastBindMem, Handle, size_t, Handle, size_t, size_t, unsigned long long);
	DRIVER(cuMulticastBindAddr, Handle, size_t, uintptr_t, size_t, unsigned long long);
	DRIVER(cuMulticastUnbind, Handle, int, size_t, size_t);
	DRIVER(cuMemExportToShareableHandle, void *, Handle, int, unsigned long long);
	DRIVER(cuMemImportFromShareableHandle, Handle *, void *, int);
	DRIVER(cuMemRelease, Handle);
	OK(cudaFree(nullptr));
	Handle memory, object, imported;
	map(&memory);
	const int files = count_files();
	const MulticastProp prop = { 2, kSize, 1, 0 };
	OK(cuMulticastCreate(&object, &prop));
	CHECK_IS(cuMulticastBindMem(object, 0, memory, 0, kSize, 0), cudaErrorInvalidValue); // device 1 is no member
	OK(cuMulticastAddDevice(object, 1));
	CHECK_IS(cuMulticastAddDevice(object, 1), cudaErrorInvalidValue);
	OK(cuMulticastBindMem(object, 0, memory, 0, kSize, 0));
	CHECK_IS(cuMulticastBindAddr(object, 0, 0, kSize, 0), cudaErrorNotSupported);

	int fd;
	OK(cuMemExportToShareableHandle(&fd, object, 1, 0));
	OK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void *>(static_cast<intptr_t>(fd)), 1));
	close(fd);
	OK(cuMulticastAddDevice(imported, 2));
	CHECK_IS(cuMulticastAddDevice(imported, 3), cudaErrorInvalidValue); // both places are taken
	CHECK_IS(cuMulticastUnbind(imported, 2, 0, kSize), cudaErrorInvalidValue);
	const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK_IS(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void *>(static_cast<intptr_t>(other)), 1),
		cudaErrorNotSupported);
	close(other);

	OK(cuMulticastUnbind(object, 1, 0, kSize));
	OK(cuMemRelease(object));
	OK(cuMemRelease(imported));
	CHECK(count_files() == files);
}

// What is mapped to an address stays there until it is unmapped, also if the new mapping begins at another address.
TEST(mappings_do_not_overlap)
{
	use_hopper();
	DRIVER(cuMemCreate, Handle *, size_t, const Prop *, unsigned long long);
	DRIVER(cuMemAddressReserve, uintptr_t *, size_t, size_t, uintptr_t, unsigned long long);
	DRIVER(cuMemMap, uintptr_t, size_t, size_t, Handle, unsigned long long);
	DRIVER(cuMemUnmap, uintptr_t, size_t);
	const Prop prop = { 1, 1, 1, 1, nullptr, {} };
	constexpr size_t kTwo = 2 * kGranularity;
	Handle memory;
	uintptr_t at;
	OK(cuMemCreate(&memory, kTwo, &prop, 0));
	OK(cuMemAddressReserve(&at, 4 * kGranularity, kGranularity, 0, 0));
	OK(cuMemMap(at + kGranularity, kTwo, 0, memory, 0));
	CHECK_IS(cuMemMap(at, kTwo, 0, memory, 0), cudaErrorInvalidValue);
	CHECK_IS(cuMemMap(at + kGranularity, kTwo, 0, memory, 0), cudaErrorInvalidValue);
	CHECK_IS(cuMemMap(at + kTwo, kTwo, 0, memory, 0), cudaErrorInvalidValue);
	OK(cuMemUnmap(at + kGranularity, kTwo));
	OK(cuMemMap(at, kTwo, 0, memory, 0));
	OK(cuMemMap(at + kTwo, kTwo, 0, memory, 0)); // beside it
}

// A kernel of NCCL is the only one to use multicast memory.
TEST(multicast_memory_is_not_copied)
{
	use_hopper();
	DRIVER(cuMulticastCreate, Handle *, const MulticastProp *);
	DRIVER(cuMemAddressReserve, uintptr_t *, size_t, size_t, uintptr_t, unsigned long long);
	DRIVER(cuMemMap, uintptr_t, size_t, size_t, Handle, unsigned long long);
	Handle object;
	const MulticastProp prop = { 2, kSize, 1, 0 };
	uintptr_t at;
	OK(cuMulticastCreate(&object, &prop));
	OK(cuMemAddressReserve(&at, kSize, kGranularity, 0, 0));
	OK(cuMemMap(at, kSize, 0, object, 0));
	char c = 0;
	CHECK_IS(cudaMemcpy(reinterpret_cast<void *>(at), &c, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	CHECK_IS(cudaMemset(reinterpret_cast<void *>(at), 0, kSize), cudaErrorInvalidValue);
}

static int attribute(int number)
{
	int value;
	OK(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(number), 0));
	return value;
}

// In an NVLink domain of several nodes, memory and multicast objects are shared by handles of the type FABRIC, which
// are only bytes. NCCL imports its own one to see whether that works.
TEST(fabric_handles)
{
	use_hopper();
	setenv("DDLEMU_SOFT_NVLINK_DOMAIN", "3", 1);
	for (int needed : { 102, 110, 128 })
		CHECK(attribute(needed) == 1);
	constexpr int kFabric = 8;
	DRIVER(cuMemExportToShareableHandle, void *, Handle, int, unsigned long long);
	DRIVER(cuMemImportFromShareableHandle, Handle *, void *, int);
	DRIVER(cuMemAddressReserve, uintptr_t *, size_t, size_t, uintptr_t, unsigned long long);
	DRIVER(cuMemMap, uintptr_t, size_t, size_t, Handle, unsigned long long);
	DRIVER(cuMemUnmap, uintptr_t, size_t);
	DRIVER(cuMemRelease, Handle);
	OK(cudaFree(nullptr));
	Handle memory, imported;
	char *const own = map(&memory);
	char bytes[64];
	OK(cuMemExportToShareableHandle(bytes, memory, kFabric, 0));
	CHECK_IS(cuMemExportToShareableHandle(bytes, memory, 2, 0), cudaErrorNotSupported);
	OK(cuMemImportFromShareableHandle(&imported, bytes, kFabric));
	uintptr_t at;
	OK(cuMemAddressReserve(&at, kSize, kGranularity, 0, 0));
	CHECK_IS(cuMemMap(at, kSize / 2, 0, imported, 0), cudaErrorNotSupported);
	OK(cuMemMap(at, kSize, 0, imported, 0));
	char *const theirs = reinterpret_cast<char *>(at);
	OK(cudaMemset(theirs + 1, 7, kSize - 1));
	CHECK(own[0] == 0 && own[1] == 7 && own[kSize - 1] == 7);
	cudaPointerAttributes where;
	OK(cudaPointerGetAttributes(&where, theirs));
	CHECK(where.type == cudaMemoryTypeDevice);
	CHECK_IS(cuMemExportToShareableHandle(bytes, imported, kFabric, 0), cudaErrorNotSupported);
	OK(cuMemUnmap(at, kSize));
	OK(cuMemRelease(imported));
	CHECK(own[1] == 7);

	const int files = count_files();
	OK(cuMemExportToShareableHandle(bytes, memory, kFabric, 0));
	OK(cuMemImportFromShareableHandle(&imported, bytes, kFabric));
	OK(cuMemMap(at, kSize, 0, imported, 0));
	OK(cuMemUnmap(at, kSize));
	OK(cuMemRelease(imported));
	int fd; // as between the ranks of a node
	OK(cuMemExportToShareableHandle(&fd, memory, 1, 0));
	OK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void *>(static_cast<intptr_t>(fd)), 1));
	close(fd);
	OK(cuMemMap(at, kSize, 0, imported, 0));
	CHECK(theirs[1] == 7);
	OK(cuMemUnmap(at, kSize));
	OK(cuMemRelease(imported));
	DRIVER(cuMulticastCreate, Handle *, const MulticastProp *);
	DRIVER(cuMulticastAddDevice, Handle, int);
	const MulticastProp prop = { 72, kSize, kFabric, 0 };
	Handle object;
	OK(cuMulticastCreate(&object, &prop));
	OK(cuMemExportToShareableHandle(bytes, object, kFabric, 0));
	OK(cuMemImportFromShareableHandle(&imported, bytes, kFabric));
	OK(cuMulticastAddDevice(imported, 2));
	OK(cuMemRelease(object));
	OK(cuMemRelease(imported));
	CHECK(count_files() == files);
	CHECK_IS(cuMemImportFromShareableHandle(&imported, bytes, kFabric), cudaErrorInvalidValue); // it has ended
	bytes[0] ^= 1;
	CHECK_IS(cuMemImportFromShareableHandle(&imported, bytes, kFabric), cudaErrorInvalidValue);
}
