// SPDX-License-Identifier: Apache-2.0

// Package oracle compares how flows share the links of a fabric in the model with an independent simulator: packet by
// packet, in virtual time, with queues that contain packets, and without any arithmetic of package link. It implements
// the discipline that the model approximates:
//
//   - a NIC sends the packets of its flows in turn,
//   - each link between switches and each receiving port has one queue, first in, first out,
//   - lossless queues with a limit: each line into a switch has a buffer of that size there for the packets that came
//     over it and have not left the switch, whatever their destination. A line whose buffer is full pauses with
//     everything that it has to send (as PFC pauses a port whose ingress buffer is full, and as a sender without
//     InfiniBand credits waits),
//   - taildrop queues with a limit: a packet that does not fit is sent again one round trip later, and its flow's later
//     packets follow it.
package oracle
