// SPDX-License-Identifier: Apache-2.0
// Event handles.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "stream.h"

namespace soft {

// record_event sets the fence of an event. Returns false if there is no such event.
bool record_event(cudaEvent_t handle, std::shared_ptr<Fence> fence);

} // namespace soft
