// SPDX-License-Identifier: Apache-2.0
// Stream handles, and the rules of CUDA's default stream.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "stream.h"

namespace soft {

// enter_stream is enter for functions with a stream: it also sets *stream to the stream of a handle. The handles 0, 1
// and 2 are the current device's default stream. An unknown handle is cudaErrorInvalidResourceHandle.
cudaError_t enter_stream(cudaStream_t handle, std::shared_ptr<Stream> *stream);

// order_before_push makes the default stream wait for the device's blocking streams, and those for the default stream.
// Streams with cudaStreamNonBlocking are not affected.
void order_before_push(const std::shared_ptr<Stream> &stream);

// before_push is called before a thread of the application queues work: it waits while the queue is full, and orders
// the default stream.
void before_push(const std::shared_ptr<Stream> &stream);

// synchronize_device waits for all work of a device.
void synchronize_device(int device);

// destroy_streams retires all streams of a device.
void destroy_streams(int device);

} // namespace soft
