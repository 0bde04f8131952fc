// SPDX-License-Identifier: Apache-2.0
// From event handles to the gate of the last record.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "stream.h"

namespace soft {

// record_event makes the event stand for the given gate; false if there is no such event.
bool record_event(cudaEvent_t handle, std::shared_ptr<Gate> gate);

} // namespace soft
