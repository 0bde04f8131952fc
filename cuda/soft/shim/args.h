// SPDX-License-Identifier: Apache-2.0
// The layout of ncclProxyArgs, an operation of NCCL's progress thread, from the disassembly of Debian's objects:
// ncclProxyProgress calls op->progress and then reads op->idle; the link to the next operation is behind that.
#pragma once

#include <cstddef>

namespace shim {

#if DDLEMU_NCCL_VERSION == 22203
constexpr size_t kIdle = 0x2bb8;
#elif DDLEMU_NCCL_VERSION == 22907
constexpr size_t kIdle = 0x80c8;
#else
#error "the offset of ncclProxyArgs.idle in this version of NCCL is not known"
#endif
constexpr size_t kNext = kIdle + 8, kArgs = kIdle + 48;

} // namespace shim
