// SPDX-License-Identifier: Apache-2.0

// Package oracle holds how flows share the links of a fabric to a simulator of its
// own: packet by packet, in virtual time, with queues that hold packets, and without
// any of the arithmetic of package link. Its discipline is the one that the model
// stands for:
//
//   - a NIC sends the packets of its flows in turn; a flow whose packet has no room
//     where it goes blocks the NIC (as PFC pauses a port),
//   - a NIC has a queue where it enters the first switch, each link between switches and
//     each receiving port has one for all that goes there, first in, first out; with a bound and lossless, what has no room waits where it is, at the head of
//     its queue, and blocks what is behind it; those who wait for room get it in turn,
//   - with a bound and tail drop, a packet that has no room comes again one round trip
//     later, and what its flow sent meanwhile behind it.
package oracle
