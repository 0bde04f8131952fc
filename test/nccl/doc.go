// SPDX-License-Identifier: Apache-2.0

// Package nccl tests ddlemu end to end: unmodified NCCL on the software CUDA through libgoemu.so, started by ddlemu as
// a user would. The tests need the output of `make build plugin-faults` in build/ and fail without it.
//
// Tests whose subject is real time run alone: those that end within a time, or are VALID on the real clock. The others,
// most of which are on the virtual clock, run beside each other, after them.
package nccl
