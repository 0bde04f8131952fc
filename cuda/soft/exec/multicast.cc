// SPDX-License-Identifier: Apache-2.0
#include "multicast.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>

namespace softexec {
namespace {

struct Range {
	size_t size;
	MemberSource source;
	std::vector<char *> members; // empty until the source has been asked
};

// Never destroyed: a launch may still run while the process exits.
struct Ranges {
	std::mutex mu;
	std::map<uintptr_t, Range> by_base;
};

Ranges &ranges()
{
	static auto *all = new Ranges;
	return *all;
}

} // namespace

void add_multicast(const void *base, size_t size, MemberSource members)
{
	std::lock_guard<std::mutex> lock(ranges().mu);
	ranges().by_base[reinterpret_cast<uintptr_t>(base)] = { size, std::move(members), {} };
}

void remove_multicast(const void *base)
{
	std::lock_guard<std::mutex> lock(ranges().mu);
	ranges().by_base.erase(reinterpret_cast<uintptr_t>(base));
}

std::vector<char *> members_of(char *address)
{
	std::lock_guard<std::mutex> lock(ranges().mu);
	const uintptr_t at = reinterpret_cast<uintptr_t>(address);
	auto next = ranges().by_base.upper_bound(at);
	if (next == ranges().by_base.begin())
		return { address };
	Range &r = std::prev(next)->second;
	const size_t offset = at - std::prev(next)->first;
	if (offset >= r.size)
		return { address };
	if (r.members.empty())
		r.members = r.source();
	std::vector<char *> out;
	for (char *base : r.members)
		out.push_back(base + offset);
	return out;
}

} // namespace softexec
