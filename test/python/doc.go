// SPDX-License-Identifier: Apache-2.0

// Package python tests libgoemu.so in a Python process, as PyTorch loads it: forks, signals,
// limits, threads, and the end of the process. The scripts in testdata use only Python's standard
// library. They call the plugin's vtable as NCCL does, between two processes, and check every
// byte. The tests need `make build`, python3 and gcc, and fail without them.
package python
