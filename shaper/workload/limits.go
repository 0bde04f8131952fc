// SPDX-License-Identifier: Apache-2.0

package workload

// Limits of a file, so that a file which is not what it seems costs no unbounded memory.
const (
	// MaxLine is the maximum length of a line in bytes.
	MaxLine = 4 << 20
	// MaxBytes is the maximum size of a file that [Read] takes.
	MaxBytes = 1 << 30
	// MaxOps is the maximum number of operations that [Read] takes, those in groups included.
	MaxOps = 1 << 22
	// MaxListed is the maximum sum of the lengths of all different lists of ranks.
	MaxListed = 1 << 23
	// MaxCalls is the maximum sum of the lengths of all programs.
	MaxCalls = 1 << 26
	// MaxStreams is the maximum number of streams of a rank.
	MaxStreams = 4096
	// MaxNanos is the maximum duration of Calc: about two years.
	MaxNanos = 1 << 56
	// MaxMessage is the maximum size of a call's count in bytes. MaxRanks of it are still a number of 63 bits.
	MaxMessage = 1 << 42
)
