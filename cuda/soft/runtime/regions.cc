// SPDX-License-Identifier: Apache-2.0
#include "regions.h"

#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace soft {

bool pageable_access = false;

namespace {

struct Table {
	std::shared_mutex mu;
	std::map<uintptr_t, Region> regions; // by base
};

Table &table()
{
	static auto *t = new Table;
	return *t;
}

using Iterator = std::map<uintptr_t, Region>::iterator;

// at returns the region that contains an address. The table must be locked.
Iterator at(Table &t, uintptr_t address)
{
	auto it = t.regions.upper_bound(address);
	if (it == t.regions.begin())
		return t.regions.end();
	--it;
	return address - it->second.base < it->second.size ? it : t.regions.end();
}

} // namespace

bool add_region(const Region &region)
{
	Table &t = table();
	std::unique_lock<std::shared_mutex> lock(t.mu);
	auto next = t.regions.lower_bound(region.base);
	if (next != t.regions.end() && next->first - region.base < region.size)
		return false;
	if (at(t, region.base) != t.regions.end())
		return false;
	t.regions[region.base] = region;
	return true;
}

Region find_region(const void *pointer)
{
	Table &t = table();
	std::shared_lock<std::shared_mutex> lock(t.mu);
	auto it = at(t, reinterpret_cast<uintptr_t>(pointer));
	return it == t.regions.end() ? Region() : it->second;
}

Region remove_region(const void *pointer, Origin a, Origin b)
{
	Table &t = table();
	std::unique_lock<std::shared_mutex> lock(t.mu);
	auto it = t.regions.find(reinterpret_cast<uintptr_t>(pointer));
	if (it == t.regions.end() || (it->second.origin != a && it->second.origin != b))
		return Region();
	Region region = it->second;
	t.regions.erase(it);
	return region;
}

std::vector<Region> remove_regions(int device)
{
	std::vector<Region> out;
	Table &t = table();
	std::unique_lock<std::shared_mutex> lock(t.mu);
	for (auto it = t.regions.begin(); it != t.regions.end();) {
		bool matches = it->second.device == device && it->second.on_device();
		if (matches)
			out.push_back(it->second);
		it = matches ? t.regions.erase(it) : std::next(it);
	}
	return out;
}

uintptr_t reopen_import(uint64_t inode, uint64_t file_offset)
{
	Table &t = table();
	std::unique_lock<std::shared_mutex> lock(t.mu);
	for (auto &entry : t.regions) {
		Region &r = entry.second;
		if (r.origin != Origin::kImported || r.inode != inode || r.file_offset != file_offset)
			continue;
		r.opened++;
		return r.base;
	}
	return 0;
}

bool close_import(const void *pointer, Region *removed)
{
	Table &t = table();
	std::unique_lock<std::shared_mutex> lock(t.mu);
	auto it = t.regions.find(reinterpret_cast<uintptr_t>(pointer));
	if (it == t.regions.end() || it->second.origin != Origin::kImported)
		return false;
	if (--it->second.opened > 0)
		return true;
	*removed = it->second;
	t.regions.erase(it);
	return true;
}

} // namespace soft
