// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: its calls that wait for sockets.
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "../runtime/clock.h"
#include "threads.h"

extern "C" {
ssize_t __real_recv(int, void *, size_t, int);
int __real_accept(int, struct sockaddr *, socklen_t *);
int __real_poll(struct pollfd *, nfds_t, int);
}

namespace {

// ask_socket asks a socket: while NCCL sets up, it waits for another process by asking again and again.
template <class Ask>
auto ask_socket(int fd, Ask ask)
{
	const auto result = ask();
	const int error = errno;
	if (ddlemuSoftClock())
		ddlemuSoftAskedSocket(fd, result >= 0 || (error != EAGAIN && error != EWOULDBLOCK));
	errno = error;
	return result;
}

} // namespace

extern "C" {

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
	return ask_socket(fd, [=] { return __real_recv(fd, data, size, flags); });
}

int __wrap_accept(int fd, struct sockaddr *address, socklen_t *size)
{
	return ask_socket(fd, [=] { return __real_accept(fd, address, size); });
}

// A service thread of NCCL looks every 500 ms whether it is to end. Who waits for its end wakes it: so a communicator
// is destroyed at once.
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const int wake = timeout > 0 ? shim::wake_descriptor() : -1;
	if (wake < 0)
		return __real_poll(fds, n, timeout);
	std::vector<pollfd> all(fds, fds + n);
	all.push_back({ wake, POLLIN, 0 });
	const int ready = __real_poll(all.data(), n + 1, timeout);
	const int error = errno;
	for (nfds_t i = 0; i < n; i++)
		fds[i].revents = all[i].revents;
	uint64_t count;
	const bool woken = ready > 0 && all[n].revents != 0;
	if (woken)
		(void)!read(wake, &count, sizeof count); // once: the next call waits again
	errno = error;
	return woken ? ready - 1 : ready;
}

} // extern "C"
