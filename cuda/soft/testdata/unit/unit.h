// SPDX-License-Identifier: Apache-2.0
// A minimal test harness. Each TEST runs in its own process: the program with the test's name as argument.
#pragma once

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

struct Test {
	const char *name;
	void (*run)();
	Test *next;
	Test(const char *name, void (*run)());
};

#define TEST(name) \
	static void test_##name(); \
	static Test register_##name(#name, test_##name); \
	static void test_##name()

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

// CHECK_IS compares a call's result with an error code.
#define CHECK_IS(call, want) \
	do { \
		cudaError_t got_ = (call); \
		if (got_ != (want)) { \
			fprintf(stderr, "%s:%d: %s: %s, want %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(got_), \
				#want); \
			exit(1); \
		} \
	} while (0)

#define OK(call) CHECK_IS(call, cudaSuccess)

// A Latch blocks a stream: block queues a host function that returns after release.
class Latch {
public:
	Latch();
	~Latch();
	void block(cudaStream_t stream);
	void release();

private:
	struct State;
	State *state_;
};

// The threads and file descriptors of this process, and the bytes of memfd pages and of its own pages that it uses.
int count_threads();
int count_files();
size_t shared_bytes();
size_t private_bytes();
