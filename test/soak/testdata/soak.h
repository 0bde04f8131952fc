// SPDX-License-Identifier: Apache-2.0
// What the scenarios share. A process is a rank, and checks every element that it receives. RANK and WORLD_SIZE say
// which rank it is; ID_FILE is the file by which the ranks find each other. Exit status: 0 everything is right, 1 a
// wrong element or a leak, 2 bad usage or an unexpected error, 3 an error of the net that NCCL reported.
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

// say prints a line without buffering: the test waits for some of them.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// fail ends the process with status 2; with DIE in the environment by SIGKILL; with LINGER half a second later.
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

// mix is a 64-bit hash: all inputs and all random choices come from it.
uint64_t mix(uint64_t x);

// Random draws the same numbers on every rank that begins with the same seed.
struct Random {
	uint64_t state;
	uint64_t below(uint64_t n) { return mix(state++) % n; }
};

// next_id passes rank 0's next unique ID to all other ranks, through a file.
ncclUniqueId next_id();
ncclComm_t new_comm();
// end_comm waits until every rank has finished with a communicator, and destroys it. A rank that only sent in its last
// call must wait: NCCL stops its proxy even if that has not begun to send (docs/failures.md).
void end_comm(ncclComm_t comm, cudaStream_t stream);
cudaStream_t new_stream();
double now(); // seconds

// A Buffer is device memory with guard bytes before and after it.
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
	// words reads the buffer back, and fails if a guard byte has changed.
	std::vector<uint32_t> words(const char *what);

private:
	static constexpr size_t kGuard = 256;
	char *base_;
	size_t bytes_;
};

// word is the contribution of rank `from` to an element of message `key`. Sums wrap around.
inline uint32_t word(uint64_t key, int from, size_t i)
{
	return static_cast<uint32_t>(mix(key * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(from) * 0x10001 + i));
}

// inputs are `count` words of rank `from`. With CORRUPT set, one bit of the last rank's input is wrong.
std::vector<uint32_t> inputs(uint64_t key, int from, size_t count);

// expect compares the received elements with want(i), and exits with status 1 at the first difference.
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

// wait_for waits for a stream. An error of the net ends the process with status 3, as soon as NCCL reports it. With
// DEAF set it does not ask NCCL for errors.
void wait_for(ncclComm_t comm, cudaStream_t stream);

// The collectives, each with its check. members are ranks of the world, in the order of the communicator.
using Members = std::vector<int>;
Members everybody();
void all_reduce(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count);
void all_gather(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count);
void reduce_scatter(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count);
void broadcast(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count, int root);
void reduce(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count, int root);

// exchange posts a group in which every rank sends `messages` messages of random sizes, up to `most` words, to every
// other rank. It returns a function that checks what was received.
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
int early(const Args &);
int impostor(const Args &);
