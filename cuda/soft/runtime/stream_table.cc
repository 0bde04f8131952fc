// SPDX-License-Identifier: Apache-2.0
#include "stream_table.h"

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device.h"
#include "error.h"

namespace soft {
namespace {

// The streams that exist. Never destroyed: workers may run until the process ends.
struct Registry {
	std::mutex mu;
	std::unordered_map<cudaStream_t, std::shared_ptr<Stream>> streams;
};

Registry &registry()
{
	static auto *r = new Registry;
	return *r;
}

bool is_default(cudaStream_t handle) { return reinterpret_cast<uintptr_t>(handle) <= 2; }

std::vector<std::shared_ptr<Stream>> streams_of(int device)
{
	std::vector<std::shared_ptr<Stream>> out;
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	for (auto &entry : r.streams)
		if (entry.second->device() == device)
			out.push_back(entry.second);
	return out;
}

cudaError_t create(cudaStream_t *out, unsigned flags, int priority)
{
	if (!out || flags > cudaStreamNonBlocking)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	if (!devices()->device(current_device()))
		return set_error(cudaErrorMemoryAllocation);
	auto stream = Stream::make(current_device(), flags, priority);
	auto handle = reinterpret_cast<cudaStream_t>(stream.get());
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	r.streams[handle] = std::move(stream);
	*out = handle;
	return cudaSuccess;
}

} // namespace

cudaError_t enter_stream(cudaStream_t handle, std::shared_ptr<Stream> *stream)
{
	if (cudaError_t err = enter())
		return err;
	if (is_default(handle)) {
		if (Device *d = devices()->device(current_device()))
			*stream = d->legacy;
	} else {
		Registry &r = registry();
		std::lock_guard<std::mutex> lock(r.mu);
		auto it = r.streams.find(handle);
		if (it != r.streams.end())
			*stream = it->second;
	}
	return *stream ? cudaSuccess : set_error(cudaErrorInvalidResourceHandle);
}

void order_before_push(const std::shared_ptr<Stream> &stream)
{
	if (stream->flags() & cudaStreamNonBlocking)
		return;
	Device *d = devices()->existing(stream->device());
	if (!d)
		return;
	if (stream != d->legacy) {
		if (auto fence = d->legacy->record_if_busy())
			stream->push_wait(fence);
		return;
	}
	for (auto &other : streams_of(stream->device())) {
		if (other->flags() & cudaStreamNonBlocking)
			continue;
		if (auto fence = other->record_if_busy())
			stream->push_wait(fence);
	}
}

void before_push(const std::shared_ptr<Stream> &stream)
{
	stream->await_room();
	order_before_push(stream);
}

void synchronize_device(int device)
{
	Device *d = devices()->existing(device);
	if (!d)
		return;
	d->legacy->synchronize();
	for (auto &stream : streams_of(device))
		stream->synchronize();
}

void destroy_streams(int device)
{
	std::vector<std::shared_ptr<Stream>> gone;
	Registry &r = registry();
	{
		std::lock_guard<std::mutex> lock(r.mu);
		for (auto it = r.streams.begin(); it != r.streams.end();) {
			if (it->second->device() != device) {
				++it;
				continue;
			}
			gone.push_back(it->second);
			it = r.streams.erase(it);
		}
	}
	for (auto &stream : gone)
		stream->retire();
}

} // namespace soft

using namespace soft;

SOFT_API cudaError_t cudaStreamCreate(cudaStream_t *stream) { return create(stream, cudaStreamDefault, 0); }

SOFT_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	return create(stream, flags, 0);
}

// A priority is stored, but has no effect.
SOFT_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	return create(stream, flags, priority);
}

SOFT_API cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
	if (is_default(handle))
		return set_error(cudaErrorInvalidResourceHandle);
	std::shared_ptr<Stream> stream;
	Registry &r = registry();
	{
		std::lock_guard<std::mutex> lock(r.mu);
		auto it = r.streams.find(handle);
		if (it == r.streams.end())
			return set_error(cudaErrorInvalidResourceHandle);
		stream = std::move(it->second);
		r.streams.erase(it);
	}
	stream->retire();
	return cudaSuccess;
}

SOFT_API cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	order_before_push(stream);
	stream->synchronize();
	return set_error(devices()->sticky(stream->device()));
}

SOFT_API cudaError_t cudaStreamQuery(cudaStream_t handle)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	order_before_push(stream);
	return set_error(stream->query() ? devices()->sticky(stream->device()) : cudaErrorNotReady);
}

SOFT_API cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned int *flags)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (!flags)
		return set_error(cudaErrorInvalidValue);
	*flags = stream->flags();
	return cudaSuccess;
}

SOFT_API cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (!priority)
		return set_error(cudaErrorInvalidValue);
	*priority = stream->priority();
	return cudaSuccess;
}

SOFT_API cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (!id)
		return set_error(cudaErrorInvalidValue);
	*id = is_default(handle) ? 1 : stream->id();
	return cudaSuccess;
}

SOFT_API cudaError_t cudaDeviceSynchronize(void)
{
	if (cudaError_t err = enter())
		return err;
	synchronize_device(current_device());
	return enter();
}
