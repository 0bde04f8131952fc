// SPDX-License-Identifier: Apache-2.0
// Operators that PyTorch has for GPUs only.
#pragma once

#include <torch/library.h>

// replace_gpu_only registers them, for tensors on software GPUs.
void replace_gpu_only(torch::Library &library);
