// SPDX-License-Identifier: Apache-2.0

// Package verify measures a fabric that is up, link by link and all links together, compares the results with what was
// asked for, and gives a verdict.
//
// The expected values come from two sources. Where a formula exists, it is used, which shares no code with the engine
// that is measured: the payload rate of the narrowest hop, the sum of the latencies, the distributions of jitter and
// loss. What depends on the transport, and on how flows share hops, is simulated with that engine (package link) on an
// idle fabric in private memory: the same messages with the same random draws. On a fabric with a virtual clock each
// message must be visible at the time of that simulation, to the nanosecond.
//
// A Runner sends the messages, so this package depends on no engine. On the kernel datapath a PacketRunner sends
// single packets, and every expected value comes from a formula.
package verify
