// SPDX-License-Identifier: Apache-2.0

// Package bench measures NCCL's collectives as nccl-tests does, with real NCCL and one process per rank. [Run] starts
// the processes (cuda/rank), controls them through warm-up, timing and check, and reads NCCL's decisions from its log.
// A [Printer] writes nccl-tests' table, CSV or JSON.
//
// The package does not depend on emulated fabrics: the caller supplies each rank's environment, the expected time of a
// row, and the verdict.
package bench
