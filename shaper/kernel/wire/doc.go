// SPDX-License-Identifier: Apache-2.0

// Package wire is a delay line in user space: the shaper of the kernel datapath for
// kernels that cannot delay packets themselves, and the reference for those that
// can. Packets cross from one switch port to another through this process.
//
// In the order a packet meets it:
//
//	socket.go   one packet socket reads what arrives at any port of the switch
//	packet.go   its headers, and how many packets it is on the wire
//	flows.go    what kind of connection it belongs to
//	model.go    the link model says when it is due, or that it is lost
//	split.go    what is left of a large packet of which parts are lost
//	loop.go     one thread waits, and writes the packet to its port when it is due
//
// Large packets (GSO) stay whole. Their headers travel with them as the kernel gives
// them (struct virtio_net_hdr).
//
// One thread runs all of it. Its state is that thread's alone, except the parameters
// in force, which Follow publishes by atomic pointers, and the counters in the
// fabric's file.
package wire
