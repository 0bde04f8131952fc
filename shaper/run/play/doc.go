// SPDX-License-Identifier: Apache-2.0

// Package play plays a workload with real NCCL on an emulated fabric: computation is time, each collective, send and
// receive is a call of NCCL on the stream that the workload names. It measures each operation, and says of each step
// how long it took and how much of that was communication that no computation hid.
package play
