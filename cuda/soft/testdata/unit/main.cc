// SPDX-License-Identifier: Apache-2.0
// Unit tests of the software CUDA runtime. They include its public headers only.
//
//   unit list       prints the tests' names
//   unit NAME       runs one test; exit status 0 if it passed
//   unit devices    prints the visible devices' PCI bus ids, for the tests of CUDA_VISIBLE_DEVICES
#include <string.h>

#include <condition_variable>
#include <mutex>

#include "../process.h"
#include "unit.h"

static Test *first;

Test::Test(const char *n, void (*r)()) : name(n), run(r), next(first) { first = this; }

struct Latch::State {
	std::mutex mu;
	std::condition_variable cv;
	bool released = false;
};

Latch::Latch() : state_(new State) {}
Latch::~Latch() { delete state_; }

void Latch::block(cudaStream_t stream)
{
	OK(cudaLaunchHostFunc(
		stream,
		[](void *data) {
			auto *s = static_cast<State *>(data);
			std::unique_lock<std::mutex> lock(s->mu);
			s->cv.wait(lock, [s] { return s->released; });
		},
		state_));
}

void Latch::release()
{
	std::lock_guard<std::mutex> lock(state_->mu);
	state_->released = true;
	state_->cv.notify_all();
}

int count_threads() { return count_entries("/proc/self/task"); }
int count_files() { return count_entries("/proc/self/fd"); }
size_t shared_bytes() { return status_kib("RssShmem:") << 10; }
size_t private_bytes() { return status_kib("RssAnon:") << 10; }

static int print_devices()
{
	int n;
	if (cudaError_t err = cudaGetDeviceCount(&n)) {
		puts(cudaGetErrorName(err));
		return 0;
	}
	for (int i = 0; i < n; i++) {
		char id[16];
		int back;
		OK(cudaDeviceGetPCIBusId(id, sizeof id, i));
		OK(cudaDeviceGetByPCIBusId(&back, id));
		CHECK(back == i);
		puts(id);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "devices"))
		return print_devices();
	bool found = false;
	for (Test *t = first; t; t = t->next) {
		if (!strcmp(argv[1], "list"))
			puts(t->name);
		if (strcmp(argv[1], t->name))
			continue;
		found = true;
		t->run();
	}
	return found || !strcmp(argv[1], "list") ? 0 : 2;
}
