//go:build ignore
// SPDX-License-Identifier: Apache-2.0

// The eBPF side of the kernel datapath. Programs:
//   tx       egress of a node's NIC: counts, and with stamp the port's rate
//   forward  ingress of a switch's port: hands a packet to the port it is for
//   rx       egress of a switch's port: counts, loss, and with stamp the link's latency
//            and the port's rate
//   arrive   ingress of a node's NIC: how late a packet is
// With stamp a program computes when a packet is to leave; fq sends it then.
#include "packet.h"

#include <linux/pkt_cls.h>

// Set before the programs are loaded.
const volatile u32 nics, nics_per_node;
const volatile u32 stamp;
const volatile u64 seed;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // two for each hop
	__type(key, u32);
	__type(value, struct ddlemu_params);
} all_params SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // hops
	__type(key, u32);
	__type(value, u32); // which of a hop's two params is in force
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // hops
	__type(key, u32);
	__type(value, struct hop);
} hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3); // normal, pareto, the fabric's own
	__type(key, u32);
	__type(value, struct table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); // NICs
	__type(key, u32); // index of a switch's port
	__type(value, u32); // its NIC
} port_nics SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // NICs
	__type(key, u32);
	__type(value, u32); // index of its port
} nic_ports SEC(".maps");

// A hop, its number and what is in force on it.
struct at {
	struct hop *h;
	struct ddlemu_params *p;
	u32 n;
};

INLINE int find(struct at *a, u32 n)
{
	a->n = n;
	a->h = bpf_map_lookup_elem(&hops, &n);
	u32 *slot = bpf_map_lookup_elem(&slots, &n);
	if (!a->h || !slot)
		return -1;
	u32 i = 2 * n + (*(volatile u32 *)slot & 1);
	a->p = bpf_map_lookup_elem(&all_params, &i);
	return a->p ? 0 : -1;
}

// link_of is the number of the link's hop, see fabric.Link, or -1.
INLINE int link_of(u32 src, u32 dst)
{
	if (src >= nics || dst >= nics || !nics_per_node || src / nics_per_node == dst / nics_per_node)
		return -1;
	u32 l = src * (nics - nics_per_node) + dst;
	if (dst > src)
		l -= nics_per_node;
	return 2 * nics + l;
}

// on_line is the line bytes of a packet on a hop: its frames without their Ethernet
// headers, and the framing of the hop around each.
INLINE u64 on_line(const struct packet *p, const struct ddlemu_params *par)
{
	u64 ether = (u64)p->packets * ETH_HLEN;
	return (p->frames > ether ? p->frames - ether : 0) + (u64)p->packets * par->framing;
}

INLINE void count(struct hop *h, const struct packet *p, u64 line, u64 dur)
{
	__sync_fetch_and_add(&h->bytes, p->payload);
	__sync_fetch_and_add(&h->line_bytes, line);
	__sync_fetch_and_add(&h->packets, p->packets);
	__sync_fetch_and_add(&h->busy_ns, dur);
	// By constants: not every kernel's verifier remembers that an index is checked.
	if (p->class == PLUGIN_FLOW)
		__sync_fetch_and_add(&h->classes[PLUGIN_FLOW], p->payload);
	else if (p->class == BOOTSTRAP_FLOW)
		__sync_fetch_and_add(&h->classes[BOOTSTRAP_FLOW], p->payload);
	else
		__sync_fetch_and_add(&h->classes[OTHER_FLOW], p->payload);
}

INLINE int drop(struct hop *h, const struct packet *p)
{
	__sync_fetch_and_add(&h->drops, p->packets);
	return TC_ACT_SHOT;
}

INLINE int full(const struct ddlemu_params *p, u64 wait)
{
	return p->queue.policy == DDLEMU_TAIL_DROP && p->queue.limit_ns && wait > (u64)p->queue.limit_ns;
}

// lost draws whether packet k is lost on hop n, h, and steps its chain.
INLINE int lost(const struct ddlemu_loss *l, struct hop *h, u32 n, u64 k)
{
	bool bad = h->bad, lose = loses(l, seed, n, 0, k, &bad);
	h->bad = bad;
	return lose;
}

// leave writes into a packet when it is to leave.
INLINE void leave(struct __sk_buff *skb, u64 t)
{
	// Only of IP is it known to be such a time, and kept from one namespace to the next.
	if (bpf_skb_set_tstamp(skb, t, BPF_SKB_TSTAMP_DELIVERY_MONO) < 0)
		skb->tstamp = t;
}

SEC("tc")
int tx(struct __sk_buff *skb)
{
	struct packet p;
	struct at port;
	if (parse(skb, &p, 1) < 0 || p.src >= nics || find(&port, 2 * p.src) < 0)
		return TC_ACT_UNSPEC;
	u64 line = on_line(&p, port.p), dur = occupancy(port.p, line);
	count(port.h, &p, line, dur);
	if (stamp)
		leave(skb, reserve(port.h, bpf_ktime_get_ns(), dur));
	return TC_ACT_UNSPEC;
}

SEC("tc")
int forward(struct __sk_buff *skb)
{
	struct ethhdr eth;
	if (bpf_skb_load_bytes(skb, 0, &eth, sizeof eth) < 0)
		return TC_ACT_UNSPEC;
	u32 nic = nic_of(eth.h_dest);
	u32 *port = bpf_map_lookup_elem(&nic_ports, &nic);
	if (!port || !*port)
		return TC_ACT_UNSPEC; // a broadcast: the bridge has it
	// The clone belongs to no socket: one that did would count as not sent, and its
	// sender would wait, for as long as the link is long.
	bpf_clone_redirect(skb, *port, 0);
	return TC_ACT_SHOT;
}

// Longer ago than this no packet left its NIC that arrives at the switch.
#define LONG_AGO 100000000

// left is when a packet began to leave its NIC, by the NIC's own arithmetic: that this
// machine was late to send it is not to add up.
INLINE u64 left(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns(), t = skb->tstamp;
	if (skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO || t > now || now - t > LONG_AGO)
		return now;
	return t;
}

SEC("tc")
int rx(struct __sk_buff *skb)
{
	struct packet p;
	struct at tx, link, port;
	u32 index = skb->ifindex;
	u32 *nic = bpf_map_lookup_elem(&port_nics, &index);
	if (!nic || parse(skb, &p, 0) < 0 || p.src >= nics)
		return TC_ACT_UNSPEC;
	int n = link_of(p.src, *nic);
	if (n < 0 || find(&tx, 2 * p.src) < 0 || find(&link, n) < 0 || find(&port, 2 * *nic + 1) < 0)
		return TC_ACT_UNSPEC;

	if (link.p->down || tx.p->down || port.p->down)
		return drop(link.h, &p);
	if (can_lose(&link.p->loss)) {
		u64 k = __sync_fetch_and_add(&link.h->drawn, 1) + 1;
		if (lost(&link.p->loss, link.h, n, k))
			return drop(link.h, &p);
	}
	u64 line = on_line(&p, link.p), dur = occupancy(link.p, line);
	u64 port_line = on_line(&p, port.p), port_dur = occupancy(port.p, port_line);
	if (!stamp) {
		count(link.h, &p, line, dur);
		count(port.h, &p, port_line, port_dur);
		return TC_ACT_UNSPEC;
	}

	u64 ready = left(skb), tx_dur = occupancy(tx.p, on_line(&p, tx.p));
	u64 finish = ready + tx_dur;
	u64 start = later(ready, *(volatile u64 *)&link.h->next_free);
	if (full(link.p, start - ready))
		return drop(link.h, &p);
	// Faster than the port that feeds it, a link never has to queue.
	if (dur > tx_dur)
		start = reserve(link.h, ready, dur);
	count(link.h, &p, line, dur);
	u64 k = __sync_fetch_and_add(&link.h->sent, 1) + 1;
	s64 delay = link.p->latency;
	if (link.p->jitter.kind != DDLEMU_NO_JITTER) {
		u32 kind = link.p->jitter.kind - DDLEMU_NORMAL;
		struct table *t = bpf_map_lookup_elem(&tables, &kind);
		delay += jitter_of(&link.p->jitter, draw(seed, n, DRAW_JITTER, 0, k), t ? t->q : 0);
		if (delay < 0)
			delay = 0;
	}
	finish = later(finish, start + dur) + delay;
	ready = in_order(&link.h->last_ready, start + delay);

	start = later(ready, *(volatile u64 *)&port.h->next_free);
	if (full(port.p, start - ready))
		return drop(port.h, &p);
	// Half full is when a switch says so (RFC 3168), to who listens.
	if (port.p->queue.limit_ns && start - ready > (u64)port.p->queue.limit_ns / 2)
		bpf_skb_ecn_set_ce(skb);
	start = reserve(port.h, ready, port_dur);
	count(port.h, &p, port_line, port_dur);
	leave(skb, later(finish, start + port_dur));
	return TC_ACT_UNSPEC;
}

#include "late.h"
#include "vector.h"

// It calls nothing that asks for the GPL.
char __license[] SEC("license") = "Apache-2.0";
