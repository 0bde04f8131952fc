// SPDX-License-Identifier: Apache-2.0

// Package plan answers one question: what does NCCL do in this call? There is no time in it.
//
// A [Decision] has what NCCL decided: collective, algorithm, protocol, channels, rings or trees, as its log says. The
// package divides the data among channels, chunks, slices and steps as that version of NCCL does. The result is a
// [Plan]: the connections between ranks, and for each rank and channel a list of actions, each of which waits for
// messages to receive and for free slots to send from, then sends.
//
// A [Job] is the calls of all its ranks. [Tasks] are its messages, with what each waits for.
//
// shaper/nccl/expect plays plans in virtual time. docs/model.md says where the rules are from, and which parts are not
// modelled.
package plan
