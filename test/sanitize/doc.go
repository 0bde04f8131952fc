// SPDX-License-Identifier: Apache-2.0

// Package sanitize runs C code under gcc's sanitizers where that needs more than one package: the
// whole plugin with the conformance suite's driver, and the rank program with the benchmark. The
// other C code is tested where it is: both ends of a connection (nccl-plugin/internal/shm,
// TestThreads), the software CUDA's runtime (cuda/soft, TestRuntimeSanitized) and its executor
// (cuda/soft/exec/exectest). `make test-asan` and `make test-tsan` run all of them.
//
// The thread sanitizer cannot run the whole plugin: it must see every thread start, and Go's
// threads start without it. TestThreads covers the plugin's C code instead.
package sanitize
