// SPDX-License-Identifier: Apache-2.0

// Package guest tests the NCCL for guests: one library with NCCL and the software CUDA, which a Python process opens by
// its path. The scripts in testdata use only Python's standard library. The tests need `make build`, python3 and gcc,
// and fail without them.
package guest
