// SPDX-License-Identifier: Apache-2.0

// libgoemu.so: a net plugin for NCCL that carries what NCCL sends between
// emulated nodes over emulated links.
//
// NCCL's vtables are C data symbols (vtable.c). What happens for every message
// stays in C (internal/shm, internal/tcp); Go joins the fabric and makes connections.
package main

func main() {}
