// SPDX-License-Identifier: Apache-2.0
// Events. An event is the gate of its last record; whoever waits keeps a reference to that gate, so that recording
// the event again or destroying it changes nothing for them.
#include "event.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "device.h"
#include "error.h"
#include "streams.h"

namespace soft {
namespace {

struct Event {
	unsigned flags;
	std::shared_ptr<Gate> gate; // nullptr: never recorded
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
		return result(cudaErrorInvalidResourceHandle);
	*out = it->second;
	return cudaSuccess;
}

cudaError_t create(cudaEvent_t *out, unsigned flags)
{
	if (!out)
		return result(cudaErrorInvalidValue);
	if (flags & cudaEventInterprocess)
		return unsupported("cudaEventInterprocess");
	if (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming))
		return result(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	*out = reinterpret_cast<cudaEvent_t>(++r.last << 4); // a number, never used twice
	r.events[*out] = { flags, nullptr };
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
	order_before_push(stream);
	record_event(handle, stream->record());
	return cudaSuccess;
}

} // namespace

bool record_event(cudaEvent_t handle, std::shared_ptr<Gate> gate)
{
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	auto it = r.events.find(handle);
	if (it == r.events.end())
		return false;
	it->second.gate = std::move(gate);
	return true;
}

} // namespace soft

using namespace soft;

SOFT_API cudaError_t cudaEventCreate(cudaEvent_t *event) { return create(event, cudaEventDefault); }

SOFT_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) { return create(event, flags); }

SOFT_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	std::shared_ptr<Gate> last; // let go of outside the lock
	Registry &r = registry();
	std::lock_guard<std::mutex> lock(r.mu);
	auto it = r.events.find(event);
	if (it == r.events.end())
		return result(cudaErrorInvalidResourceHandle);
	last = std::move(it->second.gate);
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
	if (event.gate && !event.gate->is_open())
		return result(cudaErrorNotReady);
	return enter();
}

SOFT_API cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
	Event event;
	if (cudaError_t err = enter_event(handle, &event))
		return err;
	if (event.gate)
		event.gate->wait();
	return enter();
}

SOFT_API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	Event a, b;
	if (!milliseconds)
		return result(cudaErrorInvalidValue);
	if (cudaError_t err = enter_event(start, &a))
		return err;
	if (cudaError_t err = enter_event(end, &b))
		return err;
	if (!a.gate || !b.gate || (a.flags | b.flags) & cudaEventDisableTiming)
		return result(cudaErrorInvalidResourceHandle);
	if (!a.gate->is_open() || !b.gate->is_open())
		return result(cudaErrorNotReady);
	*milliseconds = static_cast<float>((b.gate->opened_at() - a.gate->opened_at()) * 1e-6);
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
	if (!event.gate || event.gate->is_open())
		return cudaSuccess;
	order_before_push(stream);
	stream->push_wait(event.gate);
	return cudaSuccess;
}
