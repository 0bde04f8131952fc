// SPDX-License-Identifier: Apache-2.0

// Package sockets gives unprivileged processes TCP sockets in the network namespaces of a fabric's nodes. The
// fabric's daemon listens on a Unix socket in the folder of fabrics. A process of the fabric's owner, or of root,
// sends a request that names a NIC. The answer carries the descriptor of a new socket in the namespace of the NIC's
// node, and the address of the NIC. The Unix socket has a path and not an abstract name, so it can be reached from
// every network namespace.
package sockets
