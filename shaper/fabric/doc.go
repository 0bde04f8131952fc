// SPDX-License-Identifier: Apache-2.0

// Package fabric is the runtime view of a fabric: its nodes, NICs, hops and
// paths. It is made from a configuration (package configs) for the link model
// (package link).
//
// Every NIC has a full-duplex port to a switch, which is a send port and a
// receive port, and a link to each NIC of the other nodes. Topologies other than
// a star also have trunks, links between switches, with a hop in each direction.
// All hops are numbered together:
//
//	2n            send port of NIC n
//	2n + 1        receive port of NIC n
//	2N + l        link l, in the order of the NIC it comes from and the one it goes to
//	2N + L + t    trunk t, in the order of configs.Net
//
// where N is the number of NICs, NIC n is NIC n%k of node n/k with k NICs per node,
// and L is the number of links. A path is the send port of its source, the link, the
// trunks between the switches, and the receive port of its destination. The link stands
// for what the pair does not share: the cables of its NICs, a switch, and the pair's
// queue at the input of the first switch. Only the send port feeds it, so that it is
// private (see link.PathHop). A trunk is never private, even if only one hop feeds it:
// after jitter or a pause on that hop, bytes could pass the trunk faster than its rate.
//
// A port has the rate and the packet format of its NIC's links, and no latency, jitter
// or loss. The queue of a receive port is in the switch, so it has the queue and the ECN
// threshold of the links.
//
// The package neither keeps state nor reads a clock.
package fabric
