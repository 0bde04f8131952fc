// SPDX-License-Identifier: Apache-2.0

// Package shm is the datapath between processes on one host: each connection is
// a sealed memfd that both map, with a ring for the bytes and the state of the
// link model beside it. The calls that NCCL makes for every message are in C
// (conn.c, model.h); this package makes and ends connections and watches peers.
//
// A connection is made by its sender, which sends the memfd to the listener's
// process over a unix socket in the folder of fabrics. The socket is a path and
// not an abstract name, so that it works across network namespaces.
package shm
