// SPDX-License-Identifier: Apache-2.0
#include "stats.h"

#include <time.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "exec.h"
#include "reduce.h"

namespace softexec {

Counters counters;

uint64_t now_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
}

namespace {

void write_stats() {
  const char *path = std::getenv("DDLEMU_SOFT_STATS");
  if (!path || !*path) return;
  struct softexec_stats s;
  softexec_stats(&s);
  FILE *f = std::fopen(path, "we");
  if (!f) {
    std::fprintf(stderr, "ddlemu: cannot write the executor's counters to %s: %m; check DDLEMU_SOFT_STATS\n", path);
    return;
  }
  std::fprintf(f,
               "{\"launches\": %" PRIu64 ", \"reduce_ns\": %" PRIu64 ", \"copy_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64
               ", \"bytes\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"isa\": \"%s\"}\n",
               s.launches, s.reduce_ns, s.copy_ns, s.wait_ns, s.bytes, s.refused, reduction_isa());
  std::fclose(f);
}

// A destructor of the library, so that it also runs for a program that ends with exit() while streams are busy.
__attribute__((destructor)) void at_exit() { write_stats(); }

}  // namespace
}  // namespace softexec

extern "C" void softexec_stats(struct softexec_stats *out) {
  const softexec::Counters &c = softexec::counters;
  auto read = [](const std::atomic<uint64_t> &a) { return a.load(std::memory_order_relaxed); };
  *out = {read(c.launches), read(c.reduce_ns), read(c.copy_ns), read(c.wait_ns), read(c.bytes), read(c.refused)};
}
