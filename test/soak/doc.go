// SPDX-License-Identifier: Apache-2.0

// Package soak runs real NCCL on the software CUDA, through libgoemu.so: scenarios of how
// programs use NCCL, and failures of jobs. The ranks run the program in testdata, which compares
// every element that it receives. The tests need `make build`.
//
// `go test` runs most scenarios and failures once on each clock, with one NCCL version, and where
// possible a shorter form. `make soak SECONDS=600` runs all of them with both versions, in random
// order, until the time is over or one fails. SEED=N repeats the order and the random choices of
// a run.
package soak
