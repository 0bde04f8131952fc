// SPDX-License-Identifier: Apache-2.0
// From handles to streams, and the rules of CUDA's default stream.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "stream.h"

namespace soft {

// find_stream returns the stream of a handle (0, 1 and 2: the current device's default stream), or nullptr.
std::shared_ptr<Stream> find_stream(cudaStream_t handle);

// order_before_push makes the default stream wait for the device's blocking streams, and those for it: call it
// before pushing work. A stream made with cudaStreamNonBlocking takes no part.
void order_before_push(const std::shared_ptr<Stream> &stream);

// synchronize_device waits for all work of a device.
void synchronize_device(int device);

// destroy_streams retires all streams of a device.
void destroy_streams(int device);

} // namespace soft
