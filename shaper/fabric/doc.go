// SPDX-License-Identifier: Apache-2.0

// Package fabric is the runtime view of a fabric: its nodes, NICs, hops and
// paths, made from what a user wrote (package configs) for the link model
// (package link).
//
// Every NIC has a full-duplex port to one ideal switch, which is a transmit port
// and a receive port, and a link to each NIC of the other nodes. Ports and links
// are hops in one numbering, ports first:
//
//	2n            transmit port of NIC n
//	2n + 1        receive port of NIC n
//	2N + l        link l, in the order of the NIC it comes from and the one it goes to
//
// where N is the number of NICs and NIC n is NIC n%k of node n/k with k NICs per
// node. A path is the transmit port of its source, the link, and the receive port
// of its destination. The link's hop is fed by that transmit port alone.
//
// A port has the rate and the packets of its NIC's links and nothing else of
// theirs, except that what waits for a receiving port waits in the switch, so that
// port has the links' queue.
//
// Nothing here keeps state or knows the time.
package fabric
