// SPDX-License-Identifier: Apache-2.0

// Package link is the link model of ddlemu: what one emulated network does to
// a message, as pure arithmetic on 64-bit nanoseconds of CLOCK_MONOTONIC.
//
// A message is cut into segments. A segment passes the hops of its flow's path
// one after another. Hop i has the time at which it is free again, and a segment takes
// it by
//
//	start = max(ready, nextFree)
//	nextFree = start + serialisation time
//
// in one compare-and-swap. Hops are cut-through: the next hop sees the segment
// when its first byte arrives,
//
//	ready[i+1]  = start[i] + latency[i]
//	finish[i+1] = max(finish[i] + latency[i], start[i+1] + serialisation[i+1])
//
// The current time enters the arithmetic in one place, the charge for a bounded
// lossless queue (see Flow.held), which a late step makes less by at most as much
// as it is late. Else it only decides when a step may be taken: a segment reserves
// a hop no earlier than one serialisation time before it is ready there, so that a
// flow with a long way to go never delays one that arrives earlier, and flows that
// share a hop interleave by segment. A step that is taken late yields the same
// times as one that is taken in time, but for that charge, and unless another flow
// took the hop in between; Message.Distortion bounds what the latter can have cost.
//
// This package is the specification. The copy in C that the plugin runs is held
// to it by differential tests and by the examples of package vectors.
package link
