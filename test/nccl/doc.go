// SPDX-License-Identifier: Apache-2.0

// Package nccl tests ddlemu end to end: unmodified NCCL on the software CUDA,
// through libgoemu.so, started by ddlemu as a user would. The tests need what
// `make build plugin-faults` leaves in build/ and fail without it.
package nccl
