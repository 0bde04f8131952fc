// SPDX-License-Identifier: Apache-2.0
#include "stats.h"

#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "exec.h"
#include "reduce.h"

namespace softexec {

Counters counters;

uint64_t now_ns()
{
	timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
}

namespace {

// Returns the file's name with %p replaced by the process id, so that ranks with one environment write separate files.
std::string stats_path(const char *name)
{
	std::string path = name;
	size_t at = path.find("%p");
	if (at != std::string::npos)
		path.replace(at, 2, std::to_string(getpid()));
	return path;
}

void write_stats()
{
	const char *name = std::getenv("DDLEMU_SOFT_STATS");
	struct softexec_stats s;
	softexec_stats(&s);
	// A launcher has the same environment as its ranks and launches no kernel: it must not overwrite their files.
	if (!name || !*name || (s.launches == 0 && s.refused == 0))
		return;
	std::string path = stats_path(name);
	FILE *f = std::fopen(path.c_str(), "we");
	if (!f) {
		std::fprintf(stderr,
			"ddlemu: cannot write the executor's counters to %s: %m; check DDLEMU_SOFT_STATS\n",
			path.c_str());
		return;
	}
	std::fprintf(f,
		"{\"launches\": %" PRIu64 ", \"reduce_ns\": %" PRIu64 ", \"copy_ns\": %" PRIu64
		", \"wait_ns\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"isa\": \"%s\"}\n",
		s.launches, s.reduce_ns, s.copy_ns, s.wait_ns, s.bytes, s.refused, reduction_isa());
	std::fclose(f);
}

// A destructor of the library also runs if the program calls exit() while streams are busy.
__attribute__((destructor)) void at_exit() { write_stats(); }

} // namespace
} // namespace softexec

extern "C" void softexec_stats(struct softexec_stats *out)
{
	const softexec::Counters &c = softexec::counters;
	auto read = [](const std::atomic<uint64_t> &a) { return a.load(std::memory_order_relaxed); };
	*out = { read(c.launches), read(c.reduce_ns), read(c.copy_ns), read(c.wait_ns), read(c.bytes),
		read(c.refused) };
}
