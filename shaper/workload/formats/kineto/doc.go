// SPDX-License-Identifier: Apache-2.0

// Package kineto reads the traces of PyTorch's profiler (Kineto, the Chrome trace format), one file per rank.
//
// Operations are anchored on start times: the computation before a collective lasts from the last anchor to the start
// of NCCL's kernel, whether the GPU was busy then or the host. The durations of kernels are never summed. The duration
// of a collective is not used either, but to find when the computation that waits for it went on.
package kineto
