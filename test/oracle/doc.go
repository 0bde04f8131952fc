// SPDX-License-Identifier: Apache-2.0

// Package oracle holds how flows share the links of a fabric to a simulator of its
// own: packet by packet, in virtual time, with queues that hold packets, and without
// any of the arithmetic of package link. Its discipline is the one that the model
// stands for:
//
//   - a NIC sends the packets of its flows in turn,
//   - each link between switches and each receiving port has a queue for all that goes
//     there, first in, first out,
//   - lossless and with a bound, each line into a switch has a buffer of that size there,
//     for what came over it and has not left the switch, wherever it goes; a line whose
//     buffer is full waits, with all that it has to send (as PFC pauses a port whose
//     ingress account is full, and as InfiniBand's credits end),
//   - with a bound and tail drop, a packet that has no room comes again one round trip
//     later, and what its flow sent meanwhile behind it.
package oracle
