// SPDX-License-Identifier: Apache-2.0

// Package fabric is the runtime view of a fabric: its nodes, NICs, hops and
// paths, made from what a user wrote (package configs) for the link model
// (package link).
//
// Every NIC has a full-duplex port to a switch, which is a transmit port and a
// receive port, and a link to each NIC of the other nodes. With a topology other
// than a star there are links between switches, trunks, too, a hop in each
// direction. All are hops in one numbering:
//
//	2n            transmit port of NIC n
//	2n + 1        receive port of NIC n
//	2N + l        link l, in the order of the NIC it comes from and the one it goes to
//	2N + L + t    trunk t, in the order of configs.Net
//
// where N is the number of NICs, NIC n is NIC n%k of node n/k with k NICs per node,
// and L is the number of links. A path is the transmit port of its source, the link,
// the trunks on the way, and the receive port of its destination. The link stands for
// what the pair has for itself: the cables of its NICs, a switch, and what waits for
// that pair where it enters the first switch. It is fed by the transmit port alone,
// so that it is private (see link.PathHop). A trunk is never private, even if one
// hop feeds it: jitter before it, or what it was held back, would let bytes pass it
// faster than its rate.
//
// A port has the rate and the packets of its NIC's links and nothing else of
// theirs, except that what waits for a receiving port waits in the switch, so that
// port has the links' queue.
//
// Nothing here keeps state or knows the time.
package fabric
