// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../exec/cost.h"
#include "../exec/exec.h"
#include "../exec/ledger.h"
#include "application.h"
#include "device.h"
#include "error.h"
#include "event.h"
#include "module.h"
#include "stream_table.h"

namespace soft {
namespace {

struct Registry {
	std::mutex mu;
	std::unordered_map<const void *, std::string> names; // by address; a name's address is stable
	int version = 0; // of the registered NCCL
};

Registry &registry()
{
	static auto *r = new Registry;
	return *r;
}

std::atomic<bool> refuse_kernels{ false };
std::atomic<int> refused_kernels{ 0 };

// find returns the name of a kernel's address, or nullptr.
const std::string *find(const void *address)
{
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	auto it = r.names.find(address);
	return it == r.names.end() ? nullptr : &it->second;
}

// The communicator whose kernel is launched.
struct Comm {
	std::vector<int> members;
	unsigned number = 0;
};

thread_local Comm launching;

void run(const std::string &name, std::vector<char> &args, unsigned grid, unsigned block, int device, const Comm &comm)
{
	Device *d = devices()->existing(device);
	if (d->sticky != 0)
		return; // as in CUDA, no kernel runs after a failed one
	softexec_launch l = { name.c_str(), args.data(), args.size(), grid, block, device, Stream::item_ready(),
		comm.members.data(), static_cast<int>(comm.members.size()), comm.number };
	if (int err = softexec_run(&l)) {
		print_error("kernel %s failed on device %d: %s", name.c_str(), device, error_name(err));
		d->sticky = err;
	}
}

// run_host_function runs a function of cudaLaunchHostFunc. If it takes time, its stream computes.
void run_host_function(cudaHostFn_t function, void *data, uint64_t stream)
{
	const ddlemu_ledger_calls *ledger = softexec::ledger();
	const int64_t begun = ledger ? now_ns() : 0;
	function(data);
	softexec::raise_number(DDLEMU_HANDOVERS); // it may have woken a thread, which has no core yet
	if (!ledger)
		return;
	if (const int64_t ended = now_ns(); ended > begun)
		ledger->computed(stream, begun, ended);
}

} // namespace

cudaError_t launch(cudaFunction_t function, unsigned grid, unsigned block, const void *args, size_t args_size,
	cudaStream_t handle, cudaEvent_t started)
{
	if (refuse_kernels) {
		refused_kernels++;
		return cudaErrorNotPermitted; // not set_error: what is meant to fail leaves no last error
	}
	application_call();
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	const std::string *name = find(function);
	if (!name)
		return set_error(cudaErrorInvalidDeviceFunction);
	if (registry().version == 0)
		return unsupported("launching a kernel of an NCCL that was not relinked");
	if (!devices()->device(stream->device()))
		return set_error(cudaErrorMemoryAllocation);
	application_charge();
	before_push(stream);
	if (started && !record_event(started, stream))
		return set_error(cudaErrorInvalidResourceHandle);
	auto bytes = static_cast<const char *>(args);
	auto copy = std::make_shared<std::vector<char>>(bytes, bytes + args_size);
	const int device = stream->device();
	const ddlemu_ledger_calls *ledger = softexec::ledger();
	const uint64_t number = ledger ? ledger->launch(stream->id()) : 0;
	stream->push(Stream::Kind::kWorker, [=, comm = launching] {
		if (ledger)
			ledger->begin(number);
		run(*name, *copy, grid, block, device, comm);
		if (ledger)
			ledger->end(number);
	});
	return cudaSuccess;
}

} // namespace soft

using namespace soft;

SOFT_API int ddlemuSoftSupportsNccl(int nccl_version) { return softexec_supports(nccl_version); }

SOFT_API int ddlemuSoftJobRank(void)
{
	const ddlemu_node_calls *node = softexec::node_calls();
	return node ? static_cast<int>(node->rank) : -1;
}

SOFT_API void ddlemuSoftMembers(const int *ranks, int count, unsigned number)
{
	launching = { { ranks, ranks + count }, number };
}

SOFT_API void ddlemuSoftRankDied(int rank) { softexec_rank_died(rank); }

SOFT_API int ddlemuSoftRefuseKernels(int refuse)
{
	refuse_kernels = refuse != 0;
	return refused_kernels;
}

SOFT_API void ddlemuSoftRegisterKernels(int nccl_version, const ddlemuSoftKernel *kernels, size_t count)
{
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	const int major = nccl_version / 10000, minor = nccl_version / 100 % 100, patch = nccl_version % 100;
	if (r.version != 0 && r.version != nccl_version) {
		print_error("a second NCCL (%d.%d.%d) in one process is not supported", major, minor, patch);
		devices()->failure = cudaErrorNotSupported;
		return;
	}
	if (softexec_select_version(nccl_version) != 0) {
		print_error("NCCL %d.%d.%d is not supported: the layout of its data structures is unknown", major,
			minor, patch);
		devices()->failure = cudaErrorNotSupported;
		return;
	}
	r.version = nccl_version;
	for (size_t i = 0; i < count; i++)
		r.names[kernels[i].address] = kernels[i].name;
}

SOFT_API cudaError_t ddlemuSoftOneRank(void *dst, const void *src, size_t count, int nccl_type, int scaled,
	uint64_t factor, int factor_is_pointer, cudaStream_t handle)
{
	if (!scaled && dst == src)
		return cudaSuccess;
	if (!scaled)
		return cudaMemcpyAsync(
			dst, src, count * softexec_type_size(nccl_type), cudaMemcpyDeviceToDevice, handle);
	if (softexec_scale(nccl_type, dst, src, 0, factor, 0) != 0)
		return set_error(cudaErrorInvalidValue);
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	before_push(stream);
	stream->push(
		Stream::Kind::kWorker, [=] { softexec_scale(nccl_type, dst, src, count, factor, factor_is_pointer); });
	return cudaSuccess;
}

SOFT_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
	if (!function)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	if (!find(symbol))
		return refuse_kernel(symbol);
	*function = static_cast<cudaFunction_t>(const_cast<void *>(symbol));
	return cudaSuccess;
}

SOFT_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
	if (!attributes)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	if (!find(function))
		return refuse_kernel(function);
	*attributes = {};
	attributes->maxThreadsPerBlock = 1024;
	attributes->ptxVersion = attributes->binaryVersion = 80;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute, int)
{
	if (cudaError_t err = enter())
		return err;
	return find(function) ? cudaSuccess : refuse_kernel(function);
}

NOT_SUPPORTED(cudaStreamAddCallback)

SOFT_API cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data)
{
	if (!function)
		return set_error(cudaErrorInvalidValue);
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	before_push(stream);
	stream->push(Stream::Kind::kWorker, [=, id = stream->id()] { run_host_function(function, data, id); });
	return cudaSuccess;
}
