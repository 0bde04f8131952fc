// SPDX-License-Identifier: Apache-2.0

// Package bench measures NCCL's collectives as nccl-tests does, over real NCCL in one process per rank: [Run] starts
// the processes (cuda/rank), drives them through warm-up, timing and check, and reads from NCCL's own log which
// algorithm and protocol it chose; a [Printer] writes nccl-tests' table, CSV or JSON.
//
// The package knows nothing of emulated fabrics: the caller gives each rank's environment, the time that a row is
// expected to take, and the verdict.
package bench
