// SPDX-License-Identifier: Apache-2.0
// Parsing of packets: headers, NICs and flow class.
#pragma once

#include "model.h"

#include <bpf/bpf_endian.h>
#include <linux/if_ether.h>

#define PROTO_TCP 6
#define PROTO_UDP 17

struct packet {
	u32 src, dst; // NICs, or NO_NIC
	u32 packets; // how many packets a GSO packet is on the link; otherwise 1
	u32 frames; // bytes of these packets, each with an Ethernet header
	u32 payload;
	u32 class;
};

#define NO_NIC 0xffffffff

// nic_of returns the number of the NIC with a MAC address 02:dd:1e:i:NN:NN, see netns.NICOfMAC.
INLINE u32 nic_of(const u8 *mac)
{
	if (mac[0] != 0x02 || mac[1] != 0xdd || mac[2] != 0x1e)
		return NO_NIC;
	return mac[4] << 8 | mac[5];
}

enum { PLUGIN_FLOW, BOOTSTRAP_FLOW, OTHER_FLOW };

// The first bytes that the connecting side of a connection sends, as little-endian numbers.
#define PLUGIN_MAGIC 0x3150756d656c6464 // "ddlemuP1"
#define NCCL_MAGIC 0x564ab9f2fc4b9d6c
#define MAGIC_LEN 8
#define FIRST_LEN 12 // NCCL's magic and the type of socket
#define NCCL_BOOTSTRAP 1
#define NCCL_PROXY 2

// The ends of a connection, the lower first.
struct flow_key {
	u16 nic_low, port_low, nic_high, port_high;
};

struct flow {
	u32 first_seq; // sequence number of the first byte from the connecting side
	u8 from_low; // the lower end is the connecting side
	u8 got; // how many bytes of first are known
	u8 alone; // the magic came in a segment of its own, as NCCL sends it
	u8 decided; // class is final
	u32 class;
	u8 first[FIRST_LEN];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct tcp {
	u16 sport, dport;
	u32 seq, ack;
	u8 offset, flags;
} __attribute__((packed));

#define SYN 2
#define ACK 16

// inspect reads data that the connecting side sent, len bytes at off, and decides the class once
// there is enough.
INLINE void inspect(struct __sk_buff *skb, struct flow *f, u32 seq, u32 off, u32 len)
{
	u32 got = f->got;
	if (!len || seq - f->first_seq != got)
		return; // out of order: TCP sends the missing bytes again
	if (!got && len == MAGIC_LEN)
		f->alone = 1;
	for (u32 i = 0; i < FIRST_LEN; i++) {
		if (i < f->got || i - got >= len)
			continue;
		u8 b;
		if (bpf_skb_load_bytes(skb, off + i - got, &b, 1) < 0)
			return;
		f->first[i] = b;
		f->got = i + 1;
	}
	if (f->got < MAGIC_LEN)
		return;
	u64 magic;
	u32 kind;
	__builtin_memcpy(&magic, f->first, sizeof magic);
	__builtin_memcpy(&kind, f->first + MAGIC_LEN, sizeof kind);
	if (magic == PLUGIN_MAGIC) {
		f->class = PLUGIN_FLOW;
		f->decided = 1;
	} else if (magic != NCCL_MAGIC && !f->alone) {
		f->decided = 1;
	} else if (f->got == FIRST_LEN) {
		f->decided = 1;
		if (kind == NCCL_BOOTSTRAP || kind == NCCL_PROXY)
			f->class = BOOTSTRAP_FLOW;
	}
}

// class_of returns the flow class of a TCP packet. at_sender is true in the program on the sending
// NIC, which decides the class.
INLINE u32 class_of(struct __sk_buff *skb, const struct packet *p, u32 l4, const struct tcp *t, int at_sender)
{
	struct flow_key k = { p->src, bpf_ntohs(t->sport), p->dst, bpf_ntohs(t->dport) };
	int from_low = k.nic_low < k.nic_high || (k.nic_low == k.nic_high && k.port_low < k.port_high);
	if (!from_low)
		k = (struct flow_key){ p->dst, bpf_ntohs(t->dport), p->src, bpf_ntohs(t->sport) };
	if (at_sender && (t->flags & (SYN | ACK)) == SYN) {
		struct flow new_flow = {
			.first_seq = bpf_ntohl(t->seq) + 1, .from_low = from_low, .class = OTHER_FLOW
		};
		bpf_map_update_elem(&flows, &k, &new_flow, BPF_ANY);
		return OTHER_FLOW;
	}
	struct flow *f = bpf_map_lookup_elem(&flows, &k);
	if (!f)
		return OTHER_FLOW;
	if (at_sender && !f->decided && f->from_low == from_low)
		inspect(skb, f, bpf_ntohl(t->seq), l4 + (t->offset >> 4) * 4, p->payload);
	return f->class;
}

// parse parses the headers of skb. The payload begins behind the last known header.
INLINE int parse(struct __sk_buff *skb, struct packet *p, int at_sender)
{
	struct ethhdr eth;
	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof eth) < 0)
		return -1;
	p->src = nic_of(eth.h_source);
	p->dst = nic_of(eth.h_dest);
	p->packets = skb->gso_segs ? skb->gso_segs : 1;
	p->frames = skb->wire_len > skb->len ? skb->wire_len : skb->len;
	p->class = OTHER_FLOW;
	u32 l4 = sizeof eth;
	u8 proto = 0, b[2];
	if (eth.h_proto == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, l4 + 9, &proto, 1) < 0 || bpf_skb_load_bytes(skb, l4, b, 1) < 0)
			proto = 0;
		else
			l4 += (b[0] & 15) * 4;
	} else if (eth.h_proto == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, l4 + 6, &proto, 1) < 0)
			proto = 0;
		l4 += 40;
	}
	u32 payload = l4;
	struct tcp t;
	if (proto == PROTO_UDP)
		payload += 8;
	if (proto != PROTO_TCP || bpf_skb_load_bytes(skb, l4, &t, sizeof t) < 0) {
		p->payload = skb->len > payload ? skb->len - payload : 0;
		return 0;
	}
	payload += (t.offset >> 4) * 4;
	p->payload = skb->len > payload ? skb->len - payload : 0;
	if (p->src != NO_NIC && p->dst != NO_NIC)
		p->class = class_of(skb, p, l4, &t, at_sender);
	return 0;
}
