// SPDX-License-Identifier: Apache-2.0
#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "error.h"

namespace soft {

int open_remote(const RemoteRange &range)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/fd/%d", range.pid, range.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		print_error("open memory of process %d: %s (it must run as the same user in the same pid namespace)",
			range.pid, strerror(errno));
		return -1;
	}
	struct stat st;
	if (fstat(fd, &st) == 0 && st.st_ino == range.inode)
		return fd;
	close(fd);
	return -1;
}

void *map_remote(const RemoteRange &range)
{
	int fd = open_remote(range);
	if (fd < 0)
		return nullptr;
	void *p = mmap(nullptr, range.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, range.offset);
	close(fd);
	if (p == MAP_FAILED)
		return nullptr;
	madvise(p, range.size, MADV_DONTFORK);
	return p;
}

} // namespace soft
