// SPDX-License-Identifier: Apache-2.0
// The memory of one software GPU: ranges of one sparse memfd that is mapped once, so that an allocation costs no
// system call and another process can map any of it through /proc/PID/fd.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace soft {

inline size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

class Arena {
public:
	static constexpr size_t kPage = 4096;
	static constexpr size_t kLarge = 2 << 20; // allocations of at least this size are aligned to it, as in CUDA

	// make returns an arena that holds up to capacity bytes, or nullptr if the host refuses.
	static std::unique_ptr<Arena> make(int gpu, size_t capacity);
	~Arena();

	// allocate returns size bytes (rounded up to pages, all zero), or nullptr if the capacity is spent.
	void *allocate(size_t size);
	// release gives a range that allocate returned back to the host at once.
	void release(void *pointer, size_t size);

	size_t offset(const void *pointer) const { return static_cast<const char *>(pointer) - base_; }
	int fd() const { return fd_; }
	size_t used() const;
	size_t capacity() const { return capacity_; }

private:
	Arena() = default;
	// take removes size bytes at the given alignment from a free list; returns the offset, or SIZE_MAX.
	static size_t take(std::map<size_t, size_t> &free, size_t size, size_t align);
	static void give(std::map<size_t, size_t> &free, size_t offset, size_t size);
	// Small and large allocations come from different parts, so that small ones don't cut up the large ones' part.
	std::map<size_t, size_t> &list(size_t size) { return size >= kLarge ? large_ : small_; }

	int fd_ = -1;
	char *base_ = nullptr;
	size_t span_ = 0; // mapped address space in bytes
	size_t capacity_ = 0; // allocated bytes allowed
	size_t used_ = 0;
	mutable std::mutex mu_;
	std::map<size_t, size_t> small_, large_; // free ranges: offset -> size
};

} // namespace soft
