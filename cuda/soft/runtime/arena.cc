// SPDX-License-Identifier: Apache-2.0
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "error.h"

namespace soft {

std::unique_ptr<Arena> Arena::make(int gpu, size_t capacity)
{
	std::unique_ptr<Arena> a(new Arena);
	a->capacity_ = capacity;
	// Three times the capacity, one third of it for small allocations. The excess is for fragmentation and costs
	// only address space.
	const size_t third = round_up(std::max<size_t>(capacity, 16ul << 30), kLarge);
	a->span_ = 3 * third;
	char name[32];
	snprintf(name, sizeof name, "ddlemu-soft-gpu%d", gpu);
	a->fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	// It cannot shrink, so that another process that maps it may read it without a check.
	if (a->fd_ < 0 || ftruncate(a->fd_, a->span_) != 0 ||
		fcntl(a->fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		print_error("create memory of GPU %d: %s", gpu, strerror(errno));
		return nullptr;
	}
	// Reserve more address space than needed, then map the file at an aligned address in it.
	void *raw = mmap(nullptr, a->span_ + kLarge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED) {
		print_error("reserve %zu GiB of address space for GPU %d: %s", a->span_ >> 30, gpu, strerror(errno));
		return nullptr;
	}
	char *lower = static_cast<char *>(raw);
	char *base = reinterpret_cast<char *>(round_up(reinterpret_cast<uintptr_t>(raw), kLarge));
	char *upper = lower + a->span_ + kLarge;
	if (base > lower)
		munmap(lower, base - lower);
	if (upper > base + a->span_)
		munmap(base + a->span_, upper - base - a->span_);
	if (mmap(base, a->span_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, a->fd_, 0) ==
		MAP_FAILED) {
		print_error("map memory of GPU %d: %s", gpu, strerror(errno));
		munmap(base, a->span_);
		return nullptr;
	}
	a->base_ = base;
	// A forked child must not write into the parent's GPU; a core dump needs no copy of it.
	madvise(base, a->span_, MADV_DONTFORK);
	madvise(base, a->span_, MADV_DONTDUMP);
	a->small_[0] = third;
	a->large_[third] = a->span_ - third;
	return a;
}

Arena::~Arena()
{
	if (base_)
		munmap(base_, span_);
	if (fd_ >= 0)
		close(fd_);
}

size_t Arena::allocate_range(std::map<size_t, size_t> &free, size_t size, size_t align)
{
	for (auto it = free.begin(); it != free.end(); ++it) {
		size_t begin = it->first, end = begin + it->second;
		size_t at = round_up(begin, align);
		if (at + size > end)
			continue;
		free.erase(it);
		if (at > begin)
			free[begin] = at - begin;
		if (end > at + size)
			free[at + size] = end - at - size;
		return at;
	}
	return SIZE_MAX;
}

void Arena::free_range(std::map<size_t, size_t> &free, size_t offset, size_t size)
{
	auto next = free.lower_bound(offset);
	if (next != free.end() && offset + size == next->first) {
		size += next->second;
		next = free.erase(next);
	}
	if (next != free.begin()) {
		auto before = std::prev(next);
		if (before->first + before->second == offset) {
			before->second += size;
			return;
		}
	}
	free[offset] = size;
}

void *Arena::allocate(size_t size)
{
	if (size > capacity_)
		return nullptr;
	size = round_up(size, kPage);
	std::lock_guard<std::mutex> lock(mu_);
	if (used_ + size > capacity_)
		return nullptr;
	size_t at = allocate_range(free_list(size), size, size >= kLarge ? kLarge : kPage);
	if (at == SIZE_MAX)
		return nullptr;
	used_ += size;
	return base_ + at;
}

void Arena::release(void *pointer, size_t size)
{
	size = round_up(size, kPage);
	size_t at = offset(pointer);
	std::lock_guard<std::mutex> lock(mu_);
	if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, size) != 0)
		print_error("return %zu bytes to the host: %s", size, strerror(errno));
	free_range(free_list(size), at, size);
	used_ -= size;
}

// Memory that nobody has written reads as zeros and takes none of the host's. NCCL clears all that it allocates, and
// then uses little of it: so only what has pages is written.
void Arena::clear(void *pointer, size_t size)
{
	const off_t begin = offset(pointer), end = begin + size;
	for (off_t at = begin; at < end;) {
		const off_t data = lseek(fd_, at, SEEK_DATA); // the first byte of a page, or `at`
		if (data >= end || (data < 0 && errno == ENXIO))
			return; // nothing but holes
		const off_t hole = data < 0 ? end : lseek(fd_, data, SEEK_HOLE);
		const off_t from = data < 0 ? at : data, to = hole < 0 ? end : std::min(hole, end);
		memset(base_ + from, 0, to - from);
		at = to;
	}
}

size_t Arena::used() const
{
	std::lock_guard<std::mutex> lock(mu_);
	return used_;
}

} // namespace soft
