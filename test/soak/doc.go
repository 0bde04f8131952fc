// SPDX-License-Identifier: Apache-2.0

// Package soak runs real NCCL on the software CUDA, through libgoemu.so, in the ways
// that programs use it and in the ways that jobs fail. testdata is the program that
// the ranks run; it compares every element that it receives. The tests need what
// `make build` leaves in build/.
//
// `go test` runs each scenario once, with one of the two NCCL versions and where
// possible shorter. What that leaves out, `make soak SECONDS=600` runs: every scenario
// and every failure with both versions, in random order, again and again until the
// time is over or one fails. SEED=N repeats the order and the choices of a run.
package soak
