// SPDX-License-Identifier: Apache-2.0
// Tests with more than one process: memory handles, fork, open files.
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "unit.h"

// child runs a function in a forked process. join waits for it and checks that it succeeded.
template <class F>
static pid_t child(F run)
{
	pid_t pid = fork();
	if (pid == 0) {
		run();
		_exit(0);
	}
	return pid;
}

static void join(pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void send(int fd, const void *data, size_t size) { CHECK(write(fd, data, size) == static_cast<ssize_t>(size)); }
static void receive(int fd, void *data, size_t size) { CHECK(read(fd, data, size) == static_cast<ssize_t>(size)); }

TEST(ipc_shares_memory)
{
	int to_child[2], to_parent[2];
	CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
	pid_t pid = child([&] {
		cudaIpcMemHandle_t h;
		receive(to_child[0], &h, sizeof h);
		OK(cudaSetDevice(3));
		const int files = count_files();
		char *p, *again;
		OK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&p), h, cudaIpcMemLazyEnablePeerAccess));
		OK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&again), h, cudaIpcMemLazyEnablePeerAccess));
		CHECK(p == again && count_files() == files);
		CHECK(p[0] == 'p' && p[9999] == 'q');
		// A handle with another inode or offset is refused, such as the handle of a new process with the
		// owner's PID.
		for (size_t byte : { 16, 24 }) {
			cudaIpcMemHandle_t forged = h;
			forged.reserved[byte] ^= 2;
			void *other;
			CHECK_IS(cudaIpcOpenMemHandle(&other, forged, cudaIpcMemLazyEnablePeerAccess),
				cudaErrorInvalidResourceHandle);
		}
		cudaPointerAttributes at;
		OK(cudaPointerGetAttributes(&at, p));
		CHECK(at.type == cudaMemoryTypeDevice);
		OK(cudaMemset(p + 1, 'c', 1));
		CHECK_IS(cudaFree(p), cudaErrorInvalidValue);
		OK(cudaIpcCloseMemHandle(p));
		CHECK(p[1] == 'c'); // opened twice
		OK(cudaIpcCloseMemHandle(p));
		CHECK_IS(cudaIpcCloseMemHandle(p), cudaErrorInvalidValue);
		char done = 1;
		send(to_parent[1], &done, 1);
	});
	char *before, *p, done;
	OK(cudaMalloc(&before, 12345));
	OK(cudaMalloc(&p, 10000));
	OK(cudaMemset(p, 'p', 9999));
	OK(cudaMemset(p + 9999, 'q', 1));
	cudaIpcMemHandle_t h;
	OK(cudaIpcGetMemHandle(&h, p));
	void *self;
	CHECK_IS(cudaIpcOpenMemHandle(&self, h, cudaIpcMemLazyEnablePeerAccess), cudaErrorDeviceUninitialized);
	send(to_child[1], &h, sizeof h);
	receive(to_parent[0], &done, 1);
	CHECK(p[0] == 'p' && p[1] == 'c');
	join(pid);
}

TEST(ipc_refuses_a_dead_owner)
{
	int pipe_[2];
	CHECK(pipe(pipe_) == 0);
	join(child([&] {
		void *p;
		cudaIpcMemHandle_t h;
		OK(cudaMalloc(&p, 4096));
		OK(cudaIpcGetMemHandle(&h, p));
		send(pipe_[1], &h, sizeof h);
	}));
	cudaIpcMemHandle_t h;
	receive(pipe_[0], &h, sizeof h);
	void *p;
	CHECK_IS(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess), cudaErrorInvalidResourceHandle);
	memset(&h, 1, sizeof h);
	CHECK_IS(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess), cudaErrorInvalidResourceHandle);
	CHECK_IS(cudaIpcGetMemHandle(&h, &p), cudaErrorInvalidValue);
}

TEST(forked_child_is_refused)
{
	void *p;
	OK(cudaMalloc(&p, 4096));
	join(child([&] {
		void *q;
		int n;
		CHECK_IS(cudaMalloc(&q, 1), cudaErrorInitializationError);
		CHECK_IS(cudaGetDeviceCount(&n), cudaErrorInitializationError);
		CHECK_IS(cudaDeviceSynchronize(), cudaErrorInitializationError);
	}));
	OK(cudaMemset(p, 1, 4096));
}

TEST(files_are_closed_on_exec)
{
	void *p;
	OK(cudaMalloc(&p, 4096));
	int marked = 0;
	for (int fd = 3; fd < 64; fd++) {
		char name[256] = {};
		std::string link = "/proc/self/fd/" + std::to_string(fd);
		if (readlink(link.c_str(), name, sizeof name - 1) < 0 || !strstr(name, "ddlemu"))
			continue;
		CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		marked++;
	}
	CHECK(marked == 1);
}
