// SPDX-License-Identifier: Apache-2.0
// Linked into the NCCL for guests: what it does differently from the NCCL in libnccl.so.2.
#include <dlfcn.h>
#include <string.h>

#include "../runtime/regions.h"

namespace {

constexpr char kNvml[] = "libnvidia-ml.so.1";

// A guest communicates from memory that it has from elsewhere, such as the tensors of PyTorch on the CPU.
__attribute__((constructor)) void access_pageable_memory() { soft::pageable_access = true; }

} // namespace

extern "C" {

void *__real_dlopen(const char *, int);

// The linker's --wrap leads NCCL's dlopen to here. NVML is in this library. Under its own name it would be the NVML of
// the whole process: PyTorch would find GPUs in it.
void *__wrap_dlopen(const char *name, int flags)
{
	Dl_info self;
	if (name == nullptr || strcmp(name, kNvml) != 0)
		return __real_dlopen(name, flags);
	return dladdr(kNvml, &self) != 0 ? __real_dlopen(self.dli_fname, flags) : nullptr;
}

} // extern "C"
