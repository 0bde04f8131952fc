// SPDX-License-Identifier: Apache-2.0

// Package wire is the shaper that delays packets in user space, for kernels that cannot delay packets themselves. This
// process forwards every packet from one port of the switch to another.
//
// In the order in which a packet passes the files:
//
//	socket.go   a packet socket reads the packets that arrive at all ports of the switch
//	packet.go   parses the headers and counts the packets that the link carries
//	flows.go    determines the class of the packet's connection
//	model.go    computes when the packet is due, or that it is lost
//	split.go    takes a GSO packet apart if some of its packets are lost
//	loop.go     waits, and writes the packet to its port when it is due
//
// GSO packets stay whole unless a part is lost. The kernel's description of their segmentation (struct virtio_net_hdr)
// is forwarded with them.
//
// One thread does all of this. Its state is private to it, with two exceptions: the parameters in force, which Follow
// publishes by atomic pointers, and the counters in the fabric's file.
package wire
