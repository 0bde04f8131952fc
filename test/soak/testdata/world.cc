// SPDX-License-Identifier: Apache-2.0
// Ranks, memory and time.
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "soak.h"

int rank, ranks;
uint64_t seed;

void say(const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	printf("rank %d: %s\n", rank, text);
	fflush(stdout);
}

void fail()
{
	if (getenv("LINGER"))
		usleep(500000);
	if (getenv("DIE"))
		kill(getpid(), SIGKILL);
	exit(2);
}

void failed(const char *call, ncclResult_t result)
{
	say("%s: %s: %s", call, ncclGetErrorString(result), ncclGetLastError(nullptr));
	if (result != ncclRemoteError)
		fail();
	say("net error: %s", ncclGetErrorString(result));
	if (getenv("DIE") || getenv("LINGER"))
		fail();
	exit(3);
}

uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

double now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

ncclUniqueId next_id()
{
	static int number;
	const std::string path = std::string(getenv("ID_FILE")) + "." + std::to_string(number++);
	ncclUniqueId id;
	if (rank == 0) {
		NCCL(ncclGetUniqueId(&id));
		FILE *f = fopen((path + ".new").c_str(), "wb");
		if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) ||
			rename((path + ".new").c_str(), path.c_str())) {
			say("write %s: %s", path.c_str(), strerror(errno));
			exit(2);
		}
		return id;
	}
	FILE *f;
	while (!(f = fopen(path.c_str(), "rb")))
		usleep(1000);
	if (fread(&id, sizeof id, 1, f) != 1)
		exit(2);
	fclose(f);
	return id;
}

ncclComm_t new_comm()
{
	ncclComm_t comm;
	const ncclUniqueId id = next_id();
	NCCL(ncclCommInitRank(&comm, ranks, id, rank));
	return comm;
}

void end_comm(ncclComm_t comm, cudaStream_t stream)
{
	all_reduce(comm, everybody(), stream, mix(seed), 1);
	NCCL(ncclCommDestroy(comm));
}

cudaStream_t new_stream()
{
	cudaStream_t stream;
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	return stream;
}

Buffer::Buffer(size_t bytes) : bytes_(bytes)
{
	CUDA(cudaMalloc(&base_, bytes + 2 * kGuard));
	CUDA(cudaMemset(base_, 0xa5, bytes + 2 * kGuard));
}

// cudaFree waits for the device, as on a GPU. An error would be from a kernel that was aborted.
Buffer::~Buffer()
{
	if (base_)
		cudaFree(base_);
}

void Buffer::put(const std::vector<uint32_t> &words)
{
	CUDA(cudaMemcpy(at(), words.data(), words.size() * sizeof(uint32_t), cudaMemcpyHostToDevice));
}

void Buffer::clear() { CUDA(cudaMemset(at(), 0xa5, bytes_)); }

std::vector<uint32_t> Buffer::words(const char *what)
{
	std::vector<char> all(bytes_ + 2 * kGuard);
	CUDA(cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < kGuard; i++)
		if (all[i] != '\xa5' || all[all.size() - 1 - i] != '\xa5') {
			say("WRONG %s: written outside of the buffer of %zu bytes", what, bytes_);
			exit(1);
		}
	std::vector<uint32_t> words((bytes_ + 3) / 4);
	memcpy(words.data(), all.data() + kGuard, bytes_);
	return words;
}

std::vector<uint32_t> inputs(uint64_t key, int from, size_t count)
{
	std::vector<uint32_t> v(count);
	for (size_t i = 0; i < count; i++)
		v[i] = word(key, from, i);
	static const bool corrupt = getenv("CORRUPT") != nullptr;
	if (corrupt && rank == ranks - 1 && count > 0)
		v[count / 2] ^= 1u << 13;
	return v;
}

void wait_for(ncclComm_t comm, cudaStream_t stream)
{
	static const bool deaf = getenv("DEAF") != nullptr;
	for (unsigned pause = 0;; pause = pause < 1000 ? pause + 10 : 1000) {
		const cudaError_t e = cudaStreamQuery(stream);
		if (e == cudaSuccess)
			return;
		if (e != cudaErrorNotReady)
			CUDA(e);
		ncclResult_t said;
		NCCL(ncclCommGetAsyncError(comm, &said));
		if (said != ncclSuccess && said != ncclInProgress && !deaf) {
			say("net error: %s", ncclGetErrorString(said));
			NCCL(ncclCommAbort(comm));
			say("aborted");
			exit(3);
		}
		usleep(pause);
	}
}
