// SPDX-License-Identifier: Apache-2.0
// The tap: records of the packets on links, for `ddlemu capture`.
#pragma once

#include "packet.h"

#define TAP_BYTES (8 << 20) // of the ring buffer, a power of two: 27,000 records
#define TAP_SNAP 256 // the most bytes of a packet that a record has

// What happened to a packet, see tap.Fate in Go.
enum { SENT, MARKED, LOST, DOWN, LINK_FULL, PORT_FULL };

// A record, see tap.Record in Go. Times are CLOCK_MONOTONIC in ns.
struct tap_record {
	u64 enqueued; // when the packet came to its link
	u64 departs; // when the link model lets the packet arrive; 0 if a qdisc decides, or if the packet was dropped
	u64 missed; // how many records of this link did not fit into the ring buffer, ever
	u32 hop; // of the link
	u32 length; // bytes of the packet, with its Ethernet header
	u16 packets; // how many packets a GSO packet is on the link; otherwise 1
	u16 captured; // bytes of data
	u8 fate;
	u8 unused[3];
	u8 data[TAP_SNAP];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TAP_BYTES);
} tap_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // hops
	__type(key, u32);
	__type(value, u64); // records that did not fit
} tap_missed SEC(".maps");

// How many bytes of each packet the tap records, at most TAP_SNAP; 0 while no tap is open.
volatile u32 tap_snap;

// record writes a record. arrived is 0 for now. The reader polls, so that records wake nobody. The function is not
// inlined, so that a packet costs one load and one branch while no tap is open.
static __noinline int record(struct __sk_buff *skb, u32 hop, u32 fate, u64 arrived, u64 departs)
{
	u32 snap = tap_snap;
	u64 *missed = bpf_map_lookup_elem(&tap_missed, &hop);
	if (!missed)
		return 0;
	struct tap_record *to = bpf_ringbuf_reserve(&tap_ring, sizeof *to, 0);
	if (!to) {
		__sync_fetch_and_add(missed, 1);
		return 0;
	}
	to->enqueued = arrived ? arrived : bpf_ktime_get_ns();
	to->departs = departs;
	to->missed = *missed;
	to->hop = hop;
	to->length = skb->len;
	to->packets = skb->gso_segs ? skb->gso_segs : 1;
	to->fate = fate;
	u32 n = skb->len < snap ? skb->len : snap;
	if (n > TAP_SNAP)
		n = TAP_SNAP;
	// n is 1 to TAP_SNAP. The verifier of Linux 6.1 sees that only by a mask, which the compiler must not remove.
	asm volatile("" : "+r"(n));
	n = ((n - 1) & (TAP_SNAP - 1)) + 1;
	to->captured = bpf_skb_load_bytes(skb, 0, to->data, n) == 0 ? n : 0;
	bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP);
	return 0;
}
