// SPDX-License-Identifier: Apache-2.0

// Package python tests libgoemu.so as a guest in a Python process, where PyTorch
// puts it: its forks, signals, limits, threads and end. The scripts in testdata
// need nothing but Python's standard library; they drive the plugin's vtable as
// NCCL does, between two processes, and check every byte. The tests need what
// `make build` leaves in build/, python3 and gcc, and fail without them.
package python
