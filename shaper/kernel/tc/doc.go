// SPDX-License-Identifier: Apache-2.0

// Package tc implements the shapers edt, netem and htb with the kernel's queueing disciplines (qdiscs).
//
// For htb and netem, each NIC of a node has an HTB with one class per destination NIC. It limits what the node sends:
// to the rate of its send port and, per class, to the rate of the link. The backlog waits in the node, so a program
// that sends too fast is delayed as on a real port, and packets for a slow link do not delay others. Each port of the
// switch has an HTB with one class per source NIC. It limits what a node receives to the rate of its receive port,
// which the classes share equally. netem adds latency, jitter and loss there.
//
// For edt, BPF programs (package bpf) compute when each packet leaves, and the qdisc fq sends it at that time.
//
// Changes are made in place: no queued packet is lost, and running flows have the new rate from their next packet on.
package tc
