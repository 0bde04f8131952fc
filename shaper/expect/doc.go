// SPDX-License-Identifier: Apache-2.0

// Package expect answers one question: how long must this collective take on
// this fabric if the host costs nothing?
//
// It plays NCCL's own schedule in virtual time. A Decision says what NCCL chose
// (collective, algorithm, protocol, channels, rings or trees); the package cuts
// the data over channels, chunks, slices and steps as that version of NCCL does,
// and runs every rank's kernel and proxy against link.Flow, the same model that
// paces the real bytes:
//
//   - a kernel is a list of actions per channel: wait for the slices that it
//     receives and for a free slot in each buffer that it sends from, then do
//     all of it in no time;
//   - a proxy posts an irecv for every free slot and an isend for every full one,
//     and runs the operations of a connection one after another: the next
//     collective's first message waits until the previous collective's last send
//     is complete, or its last receive consumed;
//   - a rank's next kernel starts when all channels of the previous one have
//     ended, and connections within a node move data in no time.
//
// Nothing here is fitted to measurements. docs/model.md says which rules are
// taken from where, and what is not modelled.
package expect
