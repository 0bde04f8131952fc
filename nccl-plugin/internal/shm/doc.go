// SPDX-License-Identifier: Apache-2.0

// Package shm is the datapath between processes on one host. Both processes of a connection map one sealed memfd, with
// a ring for the bytes and the flow, the link engine's state. NCCL's calls for every message are in C (conn.h says in
// which files); this package makes and ends connections and watches the peers.
//
// With a virtual clock the region has no flow, which the clock needs (package clock), and the receiver
// may copy out of the sender's GPU memory instead of the ring (ShareGPU).
//
// The sender makes a connection. It sends the memfd to the listener's process over a unix socket in the folder of
// fabrics. The socket has a path instead of an abstract name, so that it can be reached from every network namespace.
package shm
