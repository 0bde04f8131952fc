// SPDX-License-Identifier: Apache-2.0
//
// The plugin, used through its vtable as NCCL does: two processes load it by dlopen.
#ifndef DDLEMU_SPEED_NET_H
#define DDLEMU_SPEED_NET_H

#include <stddef.h>

void net_throughput(size_t size); // "plugin SIZE BYTES_PER_SECOND"
void net_pingpong(void); // "pingpong 8 NS", one way
void net_rate(void); // "rate 8 MESSAGES_PER_SECOND", 32 outstanding
void net_calls(void); // "isend 8 NS", "irecv 8 NS", "test_send 8 NS", "test_recv 8 NS"
void net_idle(int connections); // "idle CONNECTIONS CPU_SECONDS_PER_SECOND"
void net_spread(int connections); // "connections N BYTES_PER_SECOND", together
void net_flows(int links, int flows, double seconds); // "flow I BYTES_PER_SECOND" and "flows_cpu N CPU_SECONDS_PER_GB"

#endif
