// SPDX-License-Identifier: Apache-2.0

// Package sockets gives processes without privileges TCP sockets inside of a
// fabric's nodes. The fabric's daemon listens on a unix socket in the folder of
// fabrics; whoever is the fabric's owner, or root, asks for a NIC and gets one fresh
// socket, made in the namespace of the NIC's node, with the address to bind it to.
// The unix socket is a path, so that it is found from every network namespace.
package sockets
