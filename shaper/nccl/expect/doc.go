// SPDX-License-Identifier: Apache-2.0

// Package expect answers one question: how long does this collective take on this fabric if the host costs nothing?
//
// It plays NCCL's plan of a call (shaper/nccl/plan) in virtual time: every rank's kernel and proxy, with link.Flow, the
// model that also paces the real bytes:
//
//   - a kernel is a list of actions per channel: wait for the slices to receive and for a free slot in each buffer to
//     send from, then do everything in no time;
//   - a proxy posts an irecv for every free slot and an isend for every full one, and runs the operations of a
//     connection one after another: the first message of the next collective waits until the last send of the
//     previous one is complete, or its last receive is consumed;
//   - a rank's next kernel starts when all channels of the previous one have ended, and connections within a node
//     move data in no time.
//
// With [Fabric.Nodes], nodes take time too: a kernel needs some to begin, each action takes its step and the time of
// its bytes (shaper/engine/node), and connections within a node are flows over the links between its GPUs.
//
// [Explain] says where the time of a call goes: each thing that happens keeps the moment of the one that it waited for
// last, with the time of each part until then.
//
// Nothing but the times of nodes is fitted to measurements. docs/model.md says where the rules are from, and what is
// not modelled.
package expect
