// SPDX-License-Identifier: Apache-2.0

// Package link is the link model of ddlemu: what one emulated network does to a message, as
// pure arithmetic on 64-bit nanoseconds of CLOCK_MONOTONIC. docs/model.md describes it.
//
// The arithmetic is the C code of this folder, the engine. There is one engine: the plugin
// runs it on memory that processes share (nccl-plugin/internal/shm), and a Network runs it
// in private memory, for all times that a model gives, and for the tests. The virtual clock
// runs it on flows in a fabric's file. engine.h is its
// interface, and advance.c begins with the content of each file. The Go code prepares parameters: a
// Spec is what the user states, and Params is what the engine reads.
//
// The engine knows no clock. The caller's time only decides when a step is made: a segment
// reserves a hop no earlier than one serialization time before it is ready there. A step
// that is made late yields the same times as one that is made in time, unless another flow
// reserved the hop meanwhile; Message.Distortion bounds what that can have cost. There are two
// exceptions: the buffer of a lossless queue with a limit, see queue.c; and parameters that
// change. A step uses those that are in force when it is made, and a path that is down then
// lets it wait. The flow looks again a millisecond later, and starts when it finds the path up. If it
// is called late, it starts at the time at which it should have looked. The down timeout counts from the time at which
// the hop went down.
package link
