// SPDX-License-Identifier: Apache-2.0

// Package sanitize runs what is in C under gcc's sanitizers where that takes more
// than one package: the whole plugin under the conformance suite's driver, and the
// rank program under the benchmark. The rest is where the code is: the engine's two
// ends (nccl-plugin/transport/shm, TestThreads), the software CUDA's runtime
// (cuda/soft, TestRuntimeSanitized) and its executor (cuda/soft/exec/exectest).
// `make test-asan` and `make test-tsan` run them all.
//
// The thread sanitizer cannot watch the whole plugin: it has to see every thread
// begin, and Go's threads begin without it. There TestThreads stands for it.
package sanitize
