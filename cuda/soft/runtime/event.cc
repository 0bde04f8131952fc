// SPDX-License-Identifier: Apache-2.0
// Events. An event has the fence of its last record. A waiter keeps a reference to that fence: recording the event
// again or destroying it has no effect on the waiter.
#include "event.h"

#include <ddlemu.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "device.h"
#include "error.h"
#include "stream_table.h"

namespace soft {
namespace {

struct Event {
	unsigned flags;
	std::shared_ptr<Fence> fence = nullptr; // nullptr: the event was never recorded
	int device = 0; // of its last record
};

struct Registry {
	std::mutex mu;
	std::unordered_map<cudaEvent_t, Event> events;
	uintptr_t last = 0;
};

Registry &registry()
{
	static auto *r = new Registry;
	return *r;
}

// enter_event is enter for functions with an event: it also copies the event's state to *out.
cudaError_t enter_event(cudaEvent_t handle, Event *out)
{
	if (cudaError_t err = enter())
		return err;
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	auto it = r.events.find(handle);
	if (it == r.events.end())
		return set_error(cudaErrorInvalidResourceHandle);
	*out = it->second;
	return cudaSuccess;
}

// leave returns the error of the event's device: a kernel before the event may have failed there. The device of this
// thread may be another one.
cudaError_t leave(const Event &event) { return event.fence ? set_error(devices()->sticky(event.device)) : enter(); }

cudaError_t create(cudaEvent_t *out, unsigned flags)
{
	if (!out)
		return set_error(cudaErrorInvalidValue);
	if (flags & cudaEventInterprocess)
		return unsupported("cudaEventInterprocess");
	if (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming))
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	*out = reinterpret_cast<cudaEvent_t>(++r.last << 4); // handles are numbers and are not reused
	r.events[*out] = { flags };
	return cudaSuccess;
}

cudaError_t record(cudaEvent_t handle, cudaStream_t stream_handle)
{
	std::shared_ptr<Stream> stream;
	Event event;
	if (cudaError_t err = enter_stream(stream_handle, &stream))
		return err;
	if (cudaError_t err = enter_event(handle, &event))
		return err;
	before_push(stream);
	record_event(handle, stream);
	return cudaSuccess;
}

} // namespace

bool record_event(cudaEvent_t handle, const std::shared_ptr<Stream> &stream)
{
	std::shared_ptr<Fence> fence = stream->record(); // released after the lock if there is no such event
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	auto it = r.events.find(handle);
	if (it == r.events.end())
		return false;
	it->second.fence.swap(fence);
	it->second.device = stream->device();
	return true;
}

} // namespace soft

using namespace soft;

SOFT_API cudaError_t cudaEventCreate(cudaEvent_t *event) { return create(event, cudaEventDefault); }

SOFT_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) { return create(event, flags); }

SOFT_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	std::shared_ptr<Fence> last; // released after the lock
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	auto it = r.events.find(event);
	if (it == r.events.end())
		return set_error(cudaErrorInvalidResourceHandle);
	last = std::move(it->second.fence);
	r.events.erase(it);
	return cudaSuccess;
}

SOFT_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return record(event, stream); }

SOFT_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
	if (flags != cudaEventRecordDefault)
		return unsupported("cudaEventRecordExternal");
	return record(event, stream);
}

SOFT_API cudaError_t cudaEventQuery(cudaEvent_t handle)
{
	Event event;
	if (cudaError_t err = enter_event(handle, &event))
		return err;
	if (event.fence && !event.fence->query())
		return set_error(cudaErrorNotReady);
	return leave(event);
}

SOFT_API cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
	Event event;
	if (cudaError_t err = enter_event(handle, &event))
		return err;
	if (event.fence)
		event.fence->wait();
	return leave(event);
}

SOFT_API cudaError_t ddlemuSoftEventWait(cudaEvent_t handle, int64_t ns)
{
	if (ns <= 0)
		return cudaEventQuery(handle);
	Event event;
	if (cudaError_t err = enter_event(handle, &event))
		return err;
	if (event.fence && !event.fence->wait_for(ns))
		return set_error(cudaErrorNotReady);
	return leave(event);
}

SOFT_API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	Event a, b;
	if (!milliseconds)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter_event(start, &a))
		return err;
	if (cudaError_t err = enter_event(end, &b))
		return err;
	if (!a.fence || !b.fence || (a.flags | b.flags) & cudaEventDisableTiming)
		return set_error(cudaErrorInvalidResourceHandle);
	if (!a.fence->is_signaled() || !b.fence->is_signaled())
		return set_error(cudaErrorNotReady);
	*milliseconds = static_cast<float>((b.fence->signaled_at() - a.fence->signaled_at()) * 1e-6);
	return cudaSuccess;
}

SOFT_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned int flags)
{
	if (flags != cudaEventWaitDefault)
		return unsupported("cudaEventWaitExternal");
	std::shared_ptr<Stream> stream;
	Event event;
	if (cudaError_t err = enter_stream(stream_handle, &stream))
		return err;
	if (cudaError_t err = enter_event(handle, &event))
		return err;
	if (!event.fence || event.fence->is_signaled())
		return cudaSuccess;
	before_push(stream);
	stream->push_wait(event.fence);
	return cudaSuccess;
}
