// SPDX-License-Identifier: Apache-2.0
// Event handles.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "stream.h"

namespace soft {

// record_event records an event on a stream. Returns false if there is no such event.
bool record_event(cudaEvent_t handle, const std::shared_ptr<Stream> &stream);

} // namespace soft
