// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: it clears all memory that it allocates, and then uses little of it. Here new memory takes pages of
// the host only where something is written.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "../runtime/memory.h"
#include "pages.h"
#include "pool.h"

extern "C" {
int __real_fallocate(int, int, off_t, off_t);
void *__real_calloc(size_t, size_t);
void __real_free(void *);
void *__real_memset(void *, int, size_t);
void *__real_mmap(void *, size_t, int, int, int, off_t);
}

namespace {

constexpr size_t kLarge = 64 << 10; // smaller blocks are written
constexpr size_t kTail = shim::kPage; // NCCL clears the file but for less than this at its end

// The file of shared memory that this thread has just made, and where it is mapped. NCCL maps and clears it at once.
struct NewFile {
	int fd = -1;
	size_t size = 0;
	char *base = nullptr;

	bool contains(const void *pointer, size_t n) const
	{
		const char *p = static_cast<const char *>(pointer);
		return base && p >= base && n <= size && static_cast<size_t>(p - base) <= size - n;
	}
};
thread_local NewFile new_file;

// clear_file writes zeros where the file has pages. The others read as zeros.
void clear_file(const NewFile &file, const void *pointer, size_t n)
{
	const off_t begin = static_cast<const char *>(pointer) - file.base, end = begin + static_cast<off_t>(n);
	for (off_t at = begin; at < end;) {
		const off_t data = lseek(file.fd, at, SEEK_DATA);
		if (data >= end || (data < 0 && errno == ENXIO))
			return;
		const off_t hole = data < 0 ? -1 : lseek(file.fd, data, SEEK_HOLE);
		const off_t from = data < 0 ? at : data, to = hole < 0 ? end : std::min(hole, end);
		__real_memset(file.base + from, 0, to - from);
		at = to;
	}
}

// clear_anonymous makes private memory of this process read as zeros. The byte that is written first shows whether it
// worked: an allocator may have taken the memory from elsewhere.
void clear_anonymous(char *p, size_t n)
{
	const shim::Pages pages(p, n);
	volatile char *mark = reinterpret_cast<char *>(pages.first);
	*mark = 1;
	if (!pages.give_back() || *mark != 0) {
		__real_memset(p, 0, n);
		return;
	}
	const uintptr_t begin = reinterpret_cast<uintptr_t>(p);
	__real_memset(p, 0, pages.first - begin);
	__real_memset(reinterpret_cast<void *>(pages.last), 0, begin + n - pages.last);
}

} // namespace

extern "C" {

// The C library writes zeros into memory that it has used before.
void *__wrap_calloc(size_t count, size_t size)
{
	size_t n;
	if (__builtin_mul_overflow(count, size, &n) || n < kLarge)
		return __real_calloc(count, size);
	char *p = static_cast<char *>(malloc(n));
	if (p) {
		clear_anonymous(p, n);
		shim::note_pool(p, n);
	}
	return p;
}

// NCCL's description of the hosts takes megabytes while a communicator is made. The C library would keep them.
void __wrap_free(void *pointer)
{
	const int error = errno;
	const size_t n = pointer ? malloc_usable_size(pointer) : 0;
	if (n >= kLarge)
		shim::Pages(pointer, n).give_back();
	errno = error;
	__real_free(pointer);
}

// NCCL reserves the memory that it shares, a file in /dev/shm. Here its pages come when they are written. As with the
// real call there must be space for all of it, because a write ends the process if there is none.
int __wrap_fallocate(int fd, int mode, off_t offset, off_t size)
{
	struct stat file;
	struct statvfs space;
	if (mode != 0 || offset != 0 || static_cast<size_t>(size) < kLarge + kTail)
		return __real_fallocate(fd, mode, offset, size);
	if (fstat(fd, &file) != 0 || fstatvfs(fd, &space) != 0)
		return -1;
	if (space.f_bavail * space.f_frsize < static_cast<size_t>(size)) {
		errno = ENOSPC;
		return -1;
	}
	new_file = { fd, static_cast<size_t>(size), nullptr };
	return file.st_size < size ? ftruncate(fd, size) : 0;
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	void *p = __real_mmap(address, size, protection, flags, fd, offset);
	if (fd >= 0 && fd == new_file.fd && p != MAP_FAILED && offset == 0 && size == new_file.size)
		new_file.base = static_cast<char *>(p);
	return p;
}

void *__wrap_memset(void *pointer, int value, size_t n)
{
	if (value != 0 || n < kLarge)
		return __real_memset(pointer, value, n);
	if (new_file.contains(pointer, n))
		clear_file(new_file, pointer, n);
	else if (!ddlemuSoftClearHost(pointer, n))
		__real_memset(pointer, 0, n);
	new_file = {};
	return pointer;
}

} // extern "C"
