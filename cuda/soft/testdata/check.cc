// SPDX-License-Identifier: Apache-2.0
// One rank of a test job: runs NCCL's collectives on the software CUDA and compares every element with the correct
// value.
//
//   check RANK RANKS ID_FILE [MODE] [corrupt]
//
// Rank 0 writes the unique id to ID_FILE. MODE is one of
//   full, quick   every collective; quick skips some types and operators
//   allreduce     AllReduce only, for algorithms that other collectives do not have
//   nvls          the collectives, types and operators that NVLS has
//   bench         times of AllReduce
//   cycle         repeats init, one collective and destroy: threads, files and memory must not grow
//   abort         rank 0 aborts an AllReduce that the other ranks do not call
// "corrupt" changes one bit of one input on the last rank, so that the check must fail.
// Exit status: 0 success, 1 wrong elements or a leak, 2 an error of CUDA or NCCL.
#include <string.h>
#include <time.h>

#include <string>
#include <vector>

#include "check_types.h"
#include "process.h"
#include "rank.h"

static bool corrupt;
static ncclComm_t comm;
static cudaStream_t stream;
static long wrong, checked;

static double now()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

// input returns a rank's input at an index: small integers, so that no type rounds.
static double input(int from, size_t i, ncclRedOp_t op)
{
	if (op == ncclProd)
		return 1 + (i + from) % 2;
	return 1 + (i * 7 + from * 3) % 5 + (op == ncclMax || op == ncclMin ? from % 3 : 0);
}

static double reduced(size_t i, ncclRedOp_t op, ncclDataType_t type)
{
	double r = input(0, i, op);
	for (int from = 1; from < ranks; from++) {
		const double v = input(from, i, op);
		if (op == ncclSum || op == ncclAvg)
			r += v;
		if (op == ncclProd)
			r *= v;
		if (op == ncclMax)
			r = v > r ? v : r;
		if (op == ncclMin)
			r = v < r ? v : r;
	}
	if (op == ncclAvg)
		r = is_integer(type) ? static_cast<double>(static_cast<long>(r) / ranks) : r / ranks;
	return r;
}

// A Buffer is device memory between guard bytes, which no collective may change.
struct Buffer {
	static constexpr size_t kGuard = 256;
	char *base;
	size_t bytes;
	explicit Buffer(size_t n) : bytes(n)
	{
		CUDA(cudaMalloc(&base, n + 2 * kGuard));
		CUDA(cudaMemset(base, 0xa5, n + 2 * kGuard));
	}
	~Buffer() { cudaFree(base); }
	char *data() { return base + kGuard; }
	void put(const std::vector<char> &v, size_t at)
	{
		CUDA(cudaMemcpy(data() + at, v.data(), v.size(), cudaMemcpyHostToDevice));
	}
	std::vector<char> all()
	{
		std::vector<char> v(bytes + 2 * kGuard);
		CUDA(cudaMemcpy(v.data(), base, v.size(), cudaMemcpyDeviceToHost));
		return v;
	}
};

// expect compares count elements, from element at on, with a function of their index. It also checks the guard bytes.
template <class F>
static void expect(const char *what, ncclDataType_t type, Buffer &b, size_t at, size_t count, F want)
{
	CUDA(cudaStreamSynchronize(stream));
	const std::vector<char> got = b.all();
	long bad = 0;
	for (size_t i = 0; i < count; i++) {
		const double g = load(type, got.data() + Buffer::kGuard + (at + i) * size_of(type)), w = want(i);
		checked++;
		if (g == w)
			continue;
		if (bad++ == 0)
			fprintf(stderr, "rank %d: %s %s[%zu]: got %g, want %g\n", rank, what, name_of(type), i, g, w);
	}
	for (size_t i = 0; i < Buffer::kGuard; i++)
		if (got[i] != '\xa5' || got[got.size() - 1 - i] != '\xa5')
			bad++;
	wrong += bad;
}

static std::vector<char> inputs(int from, size_t count, ncclRedOp_t op, ncclDataType_t type, size_t first = 0)
{
	std::vector<char> v(count * size_of(type));
	for (size_t i = 0; i < count; i++)
		store(type, v.data() + i * size_of(type), input(from, first + i, op));
	if (corrupt && rank == ranks - 1 && count)
		v[(count / 2) * size_of(type)] ^= 1;
	return v;
}

static void all_reduce(ncclDataType_t type, ncclRedOp_t op, size_t count, bool in_place)
{
	const size_t size = size_of(type);
	Buffer send(count * size), recv(count * size);
	Buffer &from = in_place ? recv : send;
	from.put(inputs(rank, count, op, type), 0);
	NCCL(ncclAllReduce(from.data(), recv.data(), count, type, op, comm, stream));
	expect("AllReduce", type, recv, 0, count, [&](size_t i) { return reduced(i, op, type); });
}

static void reduce(ncclDataType_t type, ncclRedOp_t op, size_t count, bool in_place, int root)
{
	const size_t size = size_of(type);
	Buffer send(count * size), recv(count * size);
	Buffer &from = in_place ? recv : send;
	from.put(inputs(rank, count, op, type), 0);
	NCCL(ncclReduce(from.data(), recv.data(), count, type, op, root, comm, stream));
	if (rank == root)
		expect("Reduce", type, recv, 0, count, [&](size_t i) { return reduced(i, op, type); });
	CUDA(cudaStreamSynchronize(stream));
}

static void broadcast(ncclDataType_t type, size_t count, bool in_place, int root)
{
	const size_t size = size_of(type);
	Buffer send(count * size), recv(count * size);
	Buffer &from = in_place ? recv : send;
	if (rank == root)
		from.put(inputs(root, count, ncclSum, type), 0);
	NCCL(ncclBroadcast(from.data(), recv.data(), count, type, root, comm, stream));
	expect("Broadcast", type, recv, 0, count, [&](size_t i) { return input(root, i, ncclSum); });
}

static void all_gather(ncclDataType_t type, size_t count, bool in_place)
{
	const size_t size = size_of(type);
	Buffer send(count * size), recv(count * size * ranks);
	char *from = in_place ? recv.data() + rank * count * size : send.data();
	CUDA(cudaMemcpy(from, inputs(rank, count, ncclSum, type).data(), count * size, cudaMemcpyHostToDevice));
	NCCL(ncclAllGather(from, recv.data(), count, type, comm, stream));
	expect("AllGather", type, recv, 0, count * ranks,
		[&](size_t i) { return input(static_cast<int>(i / count), i % count, ncclSum); });
}

static void reduce_scatter(ncclDataType_t type, ncclRedOp_t op, size_t count, bool in_place)
{
	const size_t size = size_of(type);
	Buffer send(count * size * ranks), recv(count * size);
	send.put(inputs(rank, count * ranks, op, type), 0);
	char *to = in_place ? send.data() + rank * count * size : recv.data();
	NCCL(ncclReduceScatter(send.data(), to, count, type, op, comm, stream));
	expect("ReduceScatter", type, in_place ? send : recv, in_place ? rank * count : 0, count,
		[&](size_t i) { return reduced(rank * count + i, op, type); });
}

// ring sends to the next rank and receives from the previous one.
static void ring(ncclDataType_t type, size_t count)
{
	Buffer send(count * size_of(type)), recv(count * size_of(type));
	const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	send.put(inputs(rank, count, ncclSum, type), 0);
	NCCL(ncclGroupStart());
	NCCL(ncclSend(send.data(), count, type, next, comm, stream));
	NCCL(ncclRecv(recv.data(), count, type, before, comm, stream));
	NCCL(ncclGroupEnd());
	expect("Send/Recv", type, recv, 0, count, [&](size_t i) { return input(before, i, ncclSum); });
}

// all_to_all sends a block to every rank, including itself.
static void all_to_all(ncclDataType_t type, size_t count)
{
	const size_t size = size_of(type);
	Buffer send(count * size * ranks), recv(count * size * ranks);
	for (int to = 0; to < ranks; to++)
		send.put(inputs(rank, count, ncclSum, type, to * 11), to * count * size);
	NCCL(ncclGroupStart());
	for (int peer = 0; peer < ranks; peer++) {
		NCCL(ncclSend(send.data() + peer * count * size, count, type, peer, comm, stream));
		NCCL(ncclRecv(recv.data() + peer * count * size, count, type, peer, comm, stream));
	}
	NCCL(ncclGroupEnd());
	expect("AllToAll", type, recv, 0, count * ranks,
		[&](size_t i) { return input(static_cast<int>(i / count), rank * 11 + i % count, ncclSum); });
}

static void check_all(bool quick)
{
	const ncclRedOp_t ops[] = { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };
	const ncclDataType_t types[] = { ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16,
		ncclBfloat16, ncclFloat32, ncclFloat64 };
	for (ncclDataType_t type : types)
		for (ncclRedOp_t op : ops) {
			if (quick && type != ncclFloat32 && op != ncclSum)
				continue;
			all_reduce(type, op, 1027, op == ncclSum);
			if (!quick)
				reduce_scatter(type, op, 515, op == ncclSum);
		}
	const size_t counts[] = { 1, 33, 4099, 300001 };
	for (size_t count : counts)
		for (int in_place = 0; in_place < 2; in_place++) {
			if (quick && in_place)
				continue;
			all_reduce(ncclFloat32, ncclSum, count, in_place);
			reduce(ncclFloat32, ncclSum, count, in_place, ranks - 1);
			broadcast(ncclFloat32, count, in_place, 0);
			all_gather(ncclFloat32, count, in_place);
			reduce_scatter(ncclFloat32, ncclSum, count, in_place);
		}
	for (size_t count : { size_t(1), size_t(5001), size_t(300001) }) {
		if (ranks > 1)
			ring(ncclInt32, count);
		all_to_all(ncclFloat32, count);
	}
}

static void check_nvls()
{
	for (ncclDataType_t type :
		{ ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64 }) {
		for (ncclRedOp_t op : { ncclSum, ncclMax, ncclMin }) {
			if (op != ncclSum && (type == ncclFloat32 || type == ncclFloat64))
				continue;
			all_reduce(type, op, 1027, op == ncclSum);
			reduce_scatter(type, op, 515, op == ncclSum);
		}
		all_gather(type, 515, type == ncclFloat32);
	}
	for (size_t count : { 1, 4099, 300001 }) {
		all_reduce(ncclFloat32, ncclSum, count, false);
		all_gather(ncclFloat32, count, false);
		reduce_scatter(ncclFloat32, ncclSum, count, false);
	}
}

// bench prints the mean time of an in-place AllReduce. All of them are queued before it waits, as in a training step.
static void bench(size_t bytes, int repeat)
{
	Buffer b(bytes);
	CUDA(cudaMemset(b.data(), 0, bytes));
	NCCL(ncclAllReduce(b.data(), b.data(), bytes / 4, ncclFloat32, ncclSum, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	const double start = now();
	for (int i = 0; i < repeat; i++)
		NCCL(ncclAllReduce(b.data(), b.data(), bytes / 4, ncclFloat32, ncclSum, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	if (rank == 0)
		printf("allreduce %zu bytes: %.3f ms\n", bytes, (now() - start) / repeat * 1e3);
}

static void init(const std::string &file) { NCCL(ncclCommInitRank(&comm, ranks, share_id(file), rank)); }

// cycle compares the usage after the last round with that after a few rounds, when NCCL has made its one-time
// allocations. A round lasts up to a second, because NCCL's proxy thread ends at its next poll.
static void cycle(const std::string &file)
{
	int threads = 0, files = 0;
	long device = 0, host = 0;
	const int first = 4, rounds = 12;
	for (int round = 0; round < rounds; round++) {
		init(file + "." + std::to_string(round));
		all_reduce(ncclFloat32, ncclSum, 100003, true);
		NCCL(ncclCommDestroy(comm));
		if (round != first)
			continue;
		threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
		device = status_kib("RssShmem:"), host = status_kib("RssAnon:");
	}
	const int more_threads = count_entries("/proc/self/task") - threads,
		  more_files = count_entries("/proc/self/fd") - files;
	const long more_device = status_kib("RssShmem:") - device, more_host = status_kib("RssAnon:") - host;
	printf("rank %d: after %d more rounds: %+d threads, %+d files, %+ld KiB on the device, %+ld KiB on the host\n",
		rank, rounds - first - 1, more_threads, more_files, more_device, more_host);
	if (more_threads > 0 || more_files > 0 || more_device > 64 || more_host > (rounds - first) * 64)
		wrong++;
}

static void abort_early()
{
	Buffer b(1 << 20);
	if (rank == 0) {
		NCCL(ncclAllReduce(b.data(), b.data(), b.bytes / 4, ncclFloat32, ncclSum, comm, stream));
		usleep(100000);
		if (cudaStreamQuery(stream) != cudaErrorNotReady)
			wrong++;
	} else {
		usleep(200000);
	}
	const double start = now();
	NCCL(ncclCommAbort(comm));
	CUDA(cudaStreamSynchronize(stream));
	printf("rank %d: aborted in %.3f s\n", rank, now() - start);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	rank = atoi(argv[1]);
	ranks = atoi(argv[2]);
	const std::string mode = argc > 4 ? argv[4] : "full";
	corrupt = argc > 5 && !strcmp(argv[5], "corrupt");
	int devices, version;
	CUDA(cudaGetDeviceCount(&devices));
	CUDA(cudaSetDevice(rank % devices));
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	NCCL(ncclGetVersion(&version));
	const double start = now();
	if (mode == "cycle") {
		cycle(argv[3]);
		return wrong ? 1 : 0;
	}
	init(argv[3]);
	const double ready = now();
	if (mode == "abort") {
		abort_early();
		return wrong ? 1 : 0;
	}
	if (mode == "bench") {
		for (size_t bytes : { size_t(8), size_t(64 << 10), size_t(1 << 20), size_t(16 << 20) })
			bench(bytes, bytes < (1 << 20) ? 50 : 10);
	} else if (mode == "allreduce") {
		for (size_t count : { size_t(1), size_t(1027), size_t(300001) })
			all_reduce(ncclFloat32, ncclSum, count, false);
	} else if (mode == "nvls") {
		check_nvls();
	} else {
		check_all(mode == "quick");
	}
	const double end = now();
	NCCL(ncclCommDestroy(comm));
	CUDA(cudaStreamDestroy(stream));
	printf("rank %d: NCCL %d, init %.3f s, run %.3f s, %ld elements, %ld wrong\n", rank, version, ready - start,
		end - ready, checked, wrong);
	return wrong ? 1 : 0;
}
