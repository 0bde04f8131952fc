// SPDX-License-Identifier: Apache-2.0
// Operators, and forms of operators, that PyTorch has for GPUs only.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

// replace_gpu_only registers them, for tensors on software GPUs.
void replace_gpu_only(torch::Library &library);

// run_on_cpu runs the CPU's kernel of an operator in the memory of software GPUs.
void run_on_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack);
