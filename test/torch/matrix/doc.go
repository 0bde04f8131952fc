// SPDX-License-Identifier: Apache-2.0

// Command matrix tests the backend of PyTorch with several versions of PyTorch and NCCL, and with the tests of others:
// PyTorch's own and the tests of Hugging Face's accelerate. It downloads them and the versions once, into a folder. It
// prints a table, and ends with an error if a test fails that is not listed in expected/, or if something cannot be
// had.
//
// `make torch-matrix` runs it, as root and in a mount namespace of its own: what it mounts ends with it.
package main
