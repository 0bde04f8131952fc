// SPDX-License-Identifier: Apache-2.0

// Package tcp is the kernel datapath: real TCP between the nodes' network namespaces. NCCL's calls
// for every message are in C (conn.c); this package makes and ends connections and watches the
// peers.
//
// The fabric's daemon makes the sockets inside the nodes (shaper/kernel/sockets), so a process
// needs no privilege and may be in any namespace. A connection has one or several streams. They
// may be accepted in another order than they connect, so each begins with a hello that says which
// stream of which connection it is.
package tcp
