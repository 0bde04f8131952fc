// SPDX-License-Identifier: Apache-2.0

package link

import "time"

// Limits of the values in a Spec. They keep every product of the engine in 64 bits:
// 256 KiB of line bytes x 8e9 x 1024 < 2^61.
const (
	MaxTimeScale = 1024
	MaxBandwidth = 10_000_000_000_000 // bit/s
	MinBandwidth = 1_000_000          // bit/s
	MaxLatency   = 10 * time.Second
	MinMTU       = 256
	MaxMTU       = 65536
)
