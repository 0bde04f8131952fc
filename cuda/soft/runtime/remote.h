// SPDX-License-Identifier: Apache-2.0
// Memory of another process of the same user: a range of its memfd, which is opened as /proc/PID/fd/N.
#pragma once

#include <cstddef>
#include <cstdint>

namespace soft {

struct RemoteRange {
	int32_t pid, fd; // the process that owns the memfd
	uint64_t inode; // of the memfd: detects that another process has got the owner's PID
	uint64_t offset, size; // bytes, multiples of the page size
};

// open_remote opens the owner's memfd, or returns -1.
int open_remote(const RemoteRange &range);

// map_remote maps a range. It returns nullptr if that is not possible, because the owner has ended, for example.
void *map_remote(const RemoteRange &range);

} // namespace soft
