// SPDX-License-Identifier: Apache-2.0

// Package drive sends messages over a fabric that is up, on the engine that NCCL's
// plugin has and by the calls that NCCL makes, and notes when each message was posted
// and when it was visible. All ends of all connections are in this process: a
// participant for each NIC, one thread that sends for all of them and one that
// receives for all, or one for both on a host that has but one core to give. Both are
// in C and busy-poll, as NCCL's threads do.
package drive
