// SPDX-License-Identifier: Apache-2.0

// Package drive sends messages over a fabric that is up, through the plugin's shm datapath, with
// the calls that NCCL makes. It records when each message was posted and when it became visible.
//
// All ends of all connections are in this process. There is a participant for each NIC. One
// thread sends for all of them and one receives for all; on a host with one free core, one thread
// does both. The loops are in C and poll, as NCCL's threads do.
package drive
