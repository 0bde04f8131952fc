// SPDX-License-Identifier: Apache-2.0

// Package expect answers one question: how long does this collective take on this fabric if the host costs nothing?
//
// A player (shaper/nccl/player) plays NCCL's plan of a call (shaper/nccl/plan) in stated time. This package says how
// many calls, and of which size, it plays, makes averages of their times, and continues them to more and longer calls.
// It knows of a player only when calls end, and choose.go says which player that is.
//
// [Explain] says where the time of a call goes, as its player does.
//
// Nothing but the times of nodes is fitted to measurements. docs/model.md says where the rules are from, and which
// parts are not modelled.
package expect
