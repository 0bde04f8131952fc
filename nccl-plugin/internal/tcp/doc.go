// SPDX-License-Identifier: Apache-2.0

// Package tcp is the plugin's side of the kernel datapath: real TCP between the
// nodes' network namespaces. The calls that NCCL makes for every message are in C
// (conn.c); this package makes and ends connections and watches peers.
//
// Sockets inside of the nodes come from the fabric's daemon (shaper/kernel/sockets),
// so that a process needs no privilege and may be in any namespace. A connection is
// one or several streams; each begins with a hello that says which it is, because
// streams are accepted in another order than they connect.
package tcp
