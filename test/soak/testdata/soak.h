// SPDX-License-Identifier: Apache-2.0
// What the scenarios of the soak have in common: one process is one rank, and every element that a rank receives is
// compared with what it must be. RANK, WORLD_SIZE and ID_FILE say who this process is and where the ranks find each
// other. Exit status: 0 all right, 1 a wrong element or a leak, 2 bad usage or an error that was not expected, 3 an
// error of the net that was reported as it should be.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

extern int rank, ranks;
extern uint64_t seed; // of this run: SEED

// say prints a line at once; the driver waits for some of them.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// fail ends the process with status 2; with DIE in the environment by SIGKILL, in the middle of things; with LINGER
// half a second later.
[[noreturn]] void fail();

#define CUDA(call) \
	do { \
		cudaError_t e_ = (call); \
		if (e_ != cudaSuccess) { \
			say("%s: %s", #call, cudaGetErrorString(e_)); \
			fail(); \
		} \
	} while (0)
#define NCCL(call) \
	do { \
		ncclResult_t e_ = (call); \
		if (e_ != ncclSuccess) \
			failed(#call, e_); \
	} while (0)
// failed reports what a call of NCCL returned, and ends the process: with status 3 if it is an error of the net.
[[noreturn]] void failed(const char *call, ncclResult_t result);

// mix is a hash of 64 bits: all inputs and all choices come from it.
uint64_t mix(uint64_t x);

// Random draws the same numbers on every rank that begins with the same seed.
struct Random {
	uint64_t state;
	uint64_t below(uint64_t n) { return mix(state++) % n; }
};

// next_id hands rank 0's next unique id to all other ranks, by a file.
ncclUniqueId next_id();
ncclComm_t new_comm();
// end_comm waits until every rank is done with a communicator, and destroys it. A rank that only sent in its last call
// may not destroy it at once: NCCL then stops its proxy although it has not begun to send (docs/failures.md).
void end_comm(ncclComm_t comm, cudaStream_t stream);
cudaStream_t new_stream();
double now(); // seconds

// A Buffer is device memory with guard bytes around it that nobody may touch.
class Buffer {
public:
	explicit Buffer(size_t bytes);
	Buffer(Buffer &&b) : base_(b.base_), bytes_(b.bytes_) { b.base_ = nullptr; }
	~Buffer();
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;
	char *at(size_t offset = 0) { return base_ + kGuard + offset; }
	size_t size() const { return bytes_; }
	void put(const std::vector<uint32_t> &words);
	void clear();
	// words reads the buffer back, and fails when a guard byte changed.
	std::vector<uint32_t> words(const char *what);

private:
	static constexpr size_t kGuard = 256;
	char *base_;
	size_t bytes_;
};

// word is what rank `from` contributes at a place of the message called key; sums of them wrap around.
inline uint32_t word(uint64_t key, int from, size_t i)
{
	return static_cast<uint32_t>(mix(key * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(from) * 0x10001 + i));
}

// inputs are `count` words of rank `from`. With CORRUPT set one bit of the last rank's own input is wrong.
std::vector<uint32_t> inputs(uint64_t key, int from, size_t count);

// expect compares what was received with want(i) and exits with status 1 at the first difference.
template <class F>
void expect(const char *what, Buffer &b, size_t count, F want)
{
	const std::vector<uint32_t> got = b.words(what);
	for (size_t i = 0; i < count; i++) {
		const uint32_t w = want(i);
		if (got[i] == w)
			continue;
		say("WRONG %s: word %zu of %zu is %08x, want %08x", what, i, count, got[i], w);
		exit(1);
	}
}

// wait_for waits for a stream. An error of the net ends the process with status 3, within a moment of NCCL's saying so;
// with DEAF it is not asked.
void wait_for(ncclComm_t comm, cudaStream_t stream);

// The collectives, each with its check. part says who takes part: the ranks of the world in the order of the
// communicator.
using Part = std::vector<int>;
Part everybody();
void all_reduce(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count);
void all_gather(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count);
void reduce_scatter(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count);
void broadcast(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count, int root);
void reduce(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count, int root);

// exchange posts a group in which every rank sends `messages` of random sizes up to `most` words to every other, and
// returns a function that checks what came.
struct Exchange {
	std::vector<std::vector<uint32_t>> sent;
	std::vector<Buffer> out, in;
	struct Message {
		uint64_t key;
		int from;
		size_t count;
	};
	std::vector<Message> coming;
	void check();
};
Exchange exchange(ncclComm_t comm, cudaStream_t stream, Random &random, int messages, size_t most);

// Scenarios; each gets the arguments after its name.
using Args = std::vector<std::string>;
int collectives(const Args &);
int groups(const Args &);
int storm(const Args &);
int comms(const Args &);
int split(const Args &);
int cycle(const Args &);
int abort_in(const Args &);
int loop(const Args &);
int impostor(const Args &);
