// SPDX-License-Identifier: Apache-2.0
#include <ddlemu.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "unit.h"

static double cpu_seconds()
{
	timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static cudaStream_t stream(unsigned flags = cudaStreamNonBlocking)
{
	cudaStream_t s;
	OK(cudaStreamCreateWithFlags(&s, flags));
	return s;
}

struct Mark {
	std::atomic<int> *clock;
	int seen = -1;
};

// stamp queues a host function that stores its place in the order of execution.
static void stamp(cudaStream_t s, Mark *m)
{
	OK(cudaLaunchHostFunc(
		s,
		[](void *data) {
			auto *mark = static_cast<Mark *>(data);
			mark->seen = (*mark->clock)++;
		},
		m));
}

TEST(stream_keeps_order)
{
	std::atomic<int> clock{ 0 };
	std::vector<Mark> marks(200, Mark{ &clock });
	cudaStream_t s = stream();
	for (Mark &m : marks)
		stamp(s, &m);
	OK(cudaStreamSynchronize(s));
	for (size_t i = 0; i < marks.size(); i++)
		CHECK(marks[i].seen == static_cast<int>(i));
	OK(cudaStreamDestroy(s));
}

// A launch waits while 1024 entries are queued, and other streams are not affected.
TEST(stream_queue_is_limited)
{
	constexpr int kMost = 1024, kLaunches = 3 * kMost;
	std::atomic<int> clock{ 0 }, launched{ 0 };
	Latch latch;
	std::vector<Mark> marks(kLaunches, Mark{ &clock });
	Mark other{ &clock };
	cudaStream_t a = stream(), b = stream();
	latch.block(a);
	std::thread launcher([&] {
		for (Mark &m : marks) {
			stamp(a, &m);
			launched++;
		}
	});
	while (launched < kMost - 1)
		usleep(1000);
	usleep(50000); // enough time to launch all others, which must not happen
	CHECK(launched == kMost - 1); // the latch is one more
	OK(cudaStreamQuery(b));
	stamp(b, &other);
	OK(cudaStreamSynchronize(b));
	CHECK(other.seen == 0);
	CHECK_IS(cudaStreamQuery(a), cudaErrorNotReady);
	latch.release();
	launcher.join();
	OK(cudaStreamSynchronize(a));
	for (int i = 0; i < kLaunches; i++)
		CHECK(marks[i].seen == i + 1);
}

TEST(streams_run_independently)
{
	std::atomic<int> clock{ 0 };
	Latch latch;
	Mark other{ &clock };
	cudaStream_t a = stream(), b = stream();
	latch.block(a);
	stamp(b, &other);
	OK(cudaStreamSynchronize(b));
	CHECK(other.seen == 0);
	CHECK_IS(cudaStreamQuery(a), cudaErrorNotReady);
	latch.release();
	OK(cudaStreamSynchronize(a));
	OK(cudaStreamQuery(a));
}

TEST(event_orders_streams)
{
	std::atomic<int> clock{ 0 };
	Latch latch;
	Mark before{ &clock }, after{ &clock };
	cudaStream_t a = stream(), b = stream();
	cudaEvent_t e;
	OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	latch.block(a);
	stamp(a, &before);
	OK(cudaEventRecord(e, a));
	OK(cudaStreamWaitEvent(b, e, 0));
	stamp(b, &after);
	// The wait is for the record above: recording the event again or destroying it has no effect on it.
	OK(cudaEventRecord(e, b));
	OK(cudaEventDestroy(e));
	usleep(20000); // enough time for b to run, which it must not
	CHECK(after.seen == -1);
	CHECK_IS(cudaStreamQuery(b), cudaErrorNotReady);
	latch.release();
	OK(cudaStreamSynchronize(b));
	CHECK(before.seen == 0 && after.seen == 1);
}

TEST(event_unrecorded_is_done)
{
	cudaEvent_t e;
	OK(cudaEventCreate(&e));
	OK(cudaEventQuery(e));
	OK(cudaEventSynchronize(e));
	cudaStream_t s = stream();
	OK(cudaStreamWaitEvent(s, e, 0));
	OK(cudaStreamQuery(s));
	float ms;
	CHECK_IS(cudaEventElapsedTime(&ms, e, e), cudaErrorInvalidResourceHandle);
	OK(cudaEventDestroy(e));
	CHECK_IS(cudaEventDestroy(e), cudaErrorInvalidResourceHandle);
	CHECK_IS(cudaEventRecord(e, s), cudaErrorInvalidResourceHandle);
}

TEST(event_wait_has_a_limit)
{
	constexpr int64_t kMs = 1000000;
	Latch latch;
	cudaEvent_t e;
	OK(cudaEventCreate(&e));
	OK(ddlemuSoftEventWait(e, kMs)); // it was never recorded
	cudaStream_t s = stream();
	latch.block(s);
	OK(cudaEventRecord(e, s));
	CHECK_IS(ddlemuSoftEventWait(e, 0), cudaErrorNotReady);
	CHECK_IS(ddlemuSoftEventWait(e, INT64_MIN), cudaErrorNotReady);
	const auto begin = std::chrono::steady_clock::now();
	CHECK_IS(ddlemuSoftEventWait(e, 20 * kMs), cudaErrorNotReady);
	CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20));
	std::thread other([&] {
		usleep(20000);
		latch.release();
	});
	OK(ddlemuSoftEventWait(e, INT64_MAX)); // the limit does not overflow
	other.join();
	OK(ddlemuSoftEventWait(e, 0));
	OK(cudaEventDestroy(e));
	CHECK_IS(ddlemuSoftEventWait(e, kMs), cudaErrorInvalidResourceHandle);
}

TEST(event_measures_the_stream)
{
	cudaEvent_t start, end, untimed;
	OK(cudaEventCreate(&start));
	OK(cudaEventCreate(&end));
	OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
	cudaStream_t s = stream();
	OK(cudaEventRecord(start, s));
	OK(cudaLaunchHostFunc(s, [](void *) { usleep(200000); }, nullptr));
	OK(cudaEventRecord(end, s));
	OK(cudaEventRecord(untimed, s));
	float ms;
	CHECK_IS(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
	CHECK_IS(cudaEventQuery(end), cudaErrorNotReady);
	OK(cudaEventSynchronize(end));
	OK(cudaEventElapsedTime(&ms, start, end));
	CHECK(ms >= 200);
	OK(cudaStreamSynchronize(s));
	CHECK_IS(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
}

TEST(default_stream_waits_for_blocking_streams)
{
	std::atomic<int> clock{ 0 };
	Latch latch;
	Mark in_blocking{ &clock }, in_default{ &clock }, after{ &clock };
	cudaStream_t blocking = stream(cudaStreamDefault), independent = stream();
	latch.block(blocking);
	stamp(blocking, &in_blocking);
	stamp(nullptr, &in_default);
	stamp(blocking, &after);
	usleep(20000);
	CHECK(in_default.seen == -1 && after.seen == -1);
	CHECK_IS(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
	OK(cudaStreamQuery(independent));
	latch.release();
	OK(cudaDeviceSynchronize());
	CHECK(in_blocking.seen == 0 && in_default.seen == 1 && after.seen == 2);
}

TEST(destroyed_stream_finishes_its_work)
{
	std::atomic<int> clock{ 0 };
	Mark m{ &clock };
	Latch latch;
	cudaEvent_t e;
	OK(cudaEventCreate(&e));
	cudaStream_t s = stream(), waiting = stream();
	latch.block(s);
	OK(cudaEventRecord(e, s));
	// This stream has no worker yet: it waits for the event when it is destroyed.
	OK(cudaStreamWaitEvent(waiting, e, 0));
	stamp(waiting, &m);
	cudaEvent_t done;
	OK(cudaEventCreate(&done));
	OK(cudaEventRecord(done, waiting));
	OK(cudaStreamDestroy(s));
	OK(cudaStreamDestroy(waiting));
	CHECK_IS(cudaStreamDestroy(s), cudaErrorInvalidResourceHandle);
	CHECK_IS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
	CHECK(m.seen == -1);
	latch.release();
	OK(cudaEventSynchronize(done));
	CHECK(m.seen == 0);
}

TEST(streams_leave_nothing_behind)
{
	void *p;
	OK(cudaMalloc(&p, 1 << 20));
	int threads = 0, files = 0;
	for (int round = 0; round < 200; round++) {
		cudaStream_t s = stream(round % 2 ? cudaStreamNonBlocking : cudaStreamDefault);
		cudaEvent_t e;
		OK(cudaEventCreate(&e));
		OK(cudaMemsetAsync(p, round, 1 << 20, s)); // big enough to need the worker
		OK(cudaEventRecord(e, s));
		OK(cudaStreamSynchronize(s));
		OK(cudaEventDestroy(e));
		OK(cudaStreamDestroy(s));
		if (round == 10)
			threads = count_threads(), files = count_files();
	}
	CHECK(count_threads() <= threads);
	CHECK(count_files() == files);
}

TEST(idle_streams_use_no_cpu)
{
	std::atomic<int> clock{ 0 };
	std::vector<Mark> marks(16, Mark{ &clock });
	for (Mark &m : marks)
		stamp(stream(), &m);
	OK(cudaDeviceSynchronize());
	const double before = cpu_seconds();
	usleep(200000);
	CHECK(cpu_seconds() - before < 0.02);
}

// Many threads queue work on many streams that wait for each other's events: all work runs and nothing hangs.
TEST(streams_under_load)
{
	constexpr int kThreads = 4, kStreams = 6, kRounds = 300;
	cudaStream_t s[kStreams];
	for (auto &one : s)
		one = stream(&one - s < 2 ? cudaStreamDefault : cudaStreamNonBlocking);
	char *p;
	OK(cudaMalloc(&p, kStreams * (256 << 10)));
	std::atomic<int> ran{ 0 };
	std::vector<std::thread> threads;
	for (int t = 0; t < kThreads; t++)
		threads.emplace_back([&, t] {
			OK(cudaSetDevice(0));
			cudaEvent_t e;
			OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
			for (int i = 0; i < kRounds; i++) {
				const int at = (t + i) % kStreams; // only this stream writes there
				cudaStream_t a = s[at], b = s[(t * 3 + i * 7) % kStreams];
				OK(cudaMemsetAsync(p + at * (256 << 10), i, i % 5 ? 100 : 128 << 10, a));
				OK(cudaEventRecord(e, a));
				OK(cudaStreamWaitEvent(b, e, 0));
				if (i % 3 == 0)
					OK(cudaLaunchHostFunc(
						b, [](void *n) { ++*static_cast<std::atomic<int> *>(n); }, &ran));
				if (i % 50 == 0)
					OK(cudaStreamSynchronize(b));
			}
			OK(cudaEventDestroy(e));
		});
	for (auto &t : threads)
		t.join();
	OK(cudaDeviceSynchronize());
	CHECK(ran == kThreads * kRounds / 3);
}

TEST(capture_is_never_active)
{
	cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
	OK(cudaStreamIsCapturing(stream(), &status));
	CHECK(status == cudaStreamCaptureStatusNone);
	cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == cudaStreamCaptureModeGlobal);
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == cudaStreamCaptureModeRelaxed);
}
