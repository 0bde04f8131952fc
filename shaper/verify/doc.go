// SPDX-License-Identifier: Apache-2.0

// Package verify measures a fabric that is up: link by link and all together. It
// plans what to send, window what came through to what was asked for, and judges.
//
// What was asked for comes from two sources that share nothing with the engine that
// is measured. Where a formula says it, that is taken: the payload rate of the
// narrowest hop, the sum of the latencies, the distributions of jitter and loss. What
// depends on how flows share hops, and on the transport, is played over package link
// in virtual time: the same messages, drawing the same random numbers.
//
// The messages themselves are sent by a Runner, so that this package knows no engine.
//
// On the kernel datapath they are single packets, which a PacketRunner sends, and all
// that is asked of them comes from formulas: nothing is played.
package verify
