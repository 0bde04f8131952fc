// SPDX-License-Identifier: Apache-2.0
// The memory of one software GPU: ranges of one sparse memfd. It is mapped once, so an allocation needs no system call.
// Another process can map any range through /proc/PID/fd.
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

	// make returns an arena of up to capacity bytes, or nullptr if the host has no memfd or address space.
	static std::unique_ptr<Arena> make(int gpu, size_t capacity);
	~Arena();

	// allocate returns size bytes, rounded up to pages and zeroed, or nullptr if less than that is free.
	void *allocate(size_t size);
	// release returns a range of allocate to the host at once.
	void release(void *pointer, size_t size);

	// clear writes zeros to a part of the arena.
	void clear(void *pointer, size_t size);

	size_t offset(const void *pointer) const { return static_cast<const char *>(pointer) - base_; }
	int fd() const { return fd_; }
	char *base() const { return base_; }
	size_t span() const { return span_; }
	size_t used() const;
	size_t capacity() const { return capacity_; }

private:
	Arena() = default;
	// allocate_range removes an aligned range from a free list and returns its offset, or SIZE_MAX. free_range
	// returns it to the list.
	static size_t allocate_range(std::map<size_t, size_t> &free, size_t size, size_t align);
	static void free_range(std::map<size_t, size_t> &free, size_t offset, size_t size);
	// Small and large allocations have separate ranges, so that small ones do not fragment the range of large ones.
	std::map<size_t, size_t> &free_list(size_t size) { return size >= kLarge ? large_ : small_; }

	int fd_ = -1;
	char *base_ = nullptr;
	size_t span_ = 0; // mapped address space in bytes
	size_t capacity_ = 0; // allocated bytes allowed
	size_t used_ = 0;
	mutable std::mutex mu_;
	std::map<size_t, size_t> small_, large_; // free ranges: offset -> size
};

} // namespace soft
