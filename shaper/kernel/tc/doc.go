// SPDX-License-Identifier: Apache-2.0

// Package tc shapes the links of a fabric by the kernel's queueing disciplines.
//
// What a node sends is held back at its own NIC, by an HTB with a class for each NIC
// that it sends to: a program that sends faster waits, as at a real port, and what is
// for a slow link is in nobody else's way. What a node receives is limited at the
// switch's port, by an HTB with a class for each NIC that sends to it; classes share
// the port equally. Latency is added there, by netem.
//
// A tree is changed in place: nothing that is queued is lost, and a flow that is
// running sees the new rate with its next packet.
package tc
