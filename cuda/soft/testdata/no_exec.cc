// SPDX-License-Identifier: Apache-2.0
// Replaces the executor when the runtime is tested alone under a sanitizer: it supports the same versions and refuses
// every launch.
#include "../exec/exec.h"
#include "../exec/ledger.h"

int softexec_supports(int nccl_version) { return nccl_version == 22203 || nccl_version == 22907; }
int softexec_select_version(int nccl_version) { return softexec_supports(nccl_version) ? 0 : -1; }
int softexec_run(const struct softexec_launch *) { return 801; }
void softexec_rank_died(int) {}
size_t softexec_type_size(int) { return 1; }
int softexec_scale(int, void *, const void *, size_t, uint64_t, int) { return -1; }
void softexec_stats(struct softexec_stats *out) { *out = {}; }

std::atomic<const ddlemu_ledger_calls *> softexec::ledger_table{ nullptr };
void softexec::forget_comms(const void *, size_t) {}
