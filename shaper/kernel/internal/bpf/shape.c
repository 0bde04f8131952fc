//go:build ignore
// SPDX-License-Identifier: Apache-2.0

// The eBPF programs of the kernel datapath:
//   tx       egress of a node's NIC: counts; with edt, the rate of the send port
//   forward  ingress of a switch's port: redirects a packet to the port of its destination
//   rx       egress of a switch's port: counts and loses packets; with edt, the latency of the
//            link and the rate of the receive port; records packets for a tap
//   arrive   ingress of a node's NIC: measures the lateness of a packet
// With edt, tx and rx compute when a packet departs, and fq sends it then.
#include "packet.h"
#include "tap.h"

#include <linux/pkt_cls.h>

// Constants that are set before the programs are loaded.
const volatile u32 nics, nics_per_node;
const volatile u32 edt;
const volatile u64 seed;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // two per hop
	__type(key, u32);
	__type(value, struct ddlemu_params);
} all_params SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // hops
	__type(key, u32);
	__type(value, u32); // index of the one of a hop's two parameter sets that is in force
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // hops
	__type(key, u32);
	__type(value, struct hop);
} hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3); // normal, pareto, that of the fabric file
	__type(key, u32);
	__type(value, struct table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); // NICs
	__type(key, u32); // interface index of a switch's port
	__type(value, u32); // its NIC
} port_nics SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // NICs
	__type(key, u32);
	__type(value, u32); // interface index of its port
} nic_ports SEC(".maps");

// A hop, its parameters in force and its number.
struct hop_ref {
	struct hop *h;
	struct ddlemu_params *p;
	u32 n;
};

// find_hop fills a for hop n. It returns -1 if there is no such hop.
INLINE int find_hop(struct hop_ref *a, u32 n)
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

// link_of returns the number of a link's hop, see fabric.Link, or -1.
INLINE int link_of(u32 src, u32 dst)
{
	if (src >= nics || dst >= nics || !nics_per_node || src / nics_per_node == dst / nics_per_node)
		return -1;
	u32 l = src * (nics - nics_per_node) + dst;
	if (dst > src)
		l -= nics_per_node;
	return 2 * nics + l;
}

// line_bytes_on returns the line bytes of a packet on a hop: its frames without their Ethernet headers,
// plus the framing of each.
INLINE u64 line_bytes_on(const struct packet *p, const struct ddlemu_params *par)
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
	// The index is constant because some kernels' verifiers do not track that it was checked.
	if (p->class == PLUGIN_FLOW)
		__sync_fetch_and_add(&h->classes[PLUGIN_FLOW], p->payload);
	else if (p->class == BOOTSTRAP_FLOW)
		__sync_fetch_and_add(&h->classes[BOOTSTRAP_FLOW], p->payload);
	else
		__sync_fetch_and_add(&h->classes[OTHER_FLOW], p->payload);
}

INLINE void drop(struct hop *h, const struct packet *p) { __sync_fetch_and_add(&h->drops, p->packets); }

INLINE int is_full(const struct ddlemu_params *p, u64 wait)
{
	return p->queue.policy == DDLEMU_TAIL_DROP && p->queue.limit_ns && wait > (u64)p->queue.limit_ns;
}

// set_departure writes the departure time into a packet.
INLINE void set_departure(struct __sk_buff *skb, u64 t)
{
	// This fails for packets that are not IP. Their timestamp is not kept across namespaces.
	if (bpf_skb_set_tstamp(skb, t, BPF_SKB_TSTAMP_DELIVERY_MONO) < 0)
		skb->tstamp = t;
}

SEC("tc")
int tx(struct __sk_buff *skb)
{
	struct packet p;
	struct hop_ref port;
	if (parse(skb, &p, 1) < 0 || p.src >= nics || find_hop(&port, 2 * p.src) < 0)
		return TC_ACT_UNSPEC;
	u64 line = line_bytes_on(&p, port.p), dur = occupancy(port.p, line);
	count(port.h, &p, line, dur);
	if (edt)
		set_departure(skb, reserve(port.h, bpf_ktime_get_ns(), dur));
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
		return TC_ACT_UNSPEC; // the bridge forwards broadcasts
	// The clone belongs to no socket. Otherwise its bytes would count as unsent until it has
	// crossed the link, and the sender would wait.
	bpf_clone_redirect(skb, *port, 0);
	return TC_ACT_SHOT;
}

// A packet that arrives at the switch departed from its NIC less than this many ns ago.
#define MAX_AGE 100000000

// departure_of returns when a packet departed from its NIC, as tx computed it. So the lateness
// of the timer in the node does not add to that behind the switch.
INLINE u64 departure_of(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns(), t = skb->tstamp;
	if (skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO || t > now || now - t > MAX_AGE)
		return now;
	return t;
}

// draw_delay returns the latency of the next packet of a link, jitter included.
INLINE s64 draw_delay(const struct hop_ref *link)
{
	const struct ddlemu_jitter *j = &link->p->jitter;
	u64 k = __sync_fetch_and_add(&link->h->sent, 1) + 1;
	if (j->kind == DDLEMU_NO_JITTER)
		return link->p->latency;
	u32 kind = j->kind - DDLEMU_NORMAL;
	struct table *t = bpf_map_lookup_elem(&tables, &kind);
	s64 delay = link->p->latency + jitter_of(j, draw(seed, link->n, DRAW_JITTER, 0, k), t ? t->q : 0);
	return delay < 0 ? 0 : delay;
}

// cross takes a packet over a link and through the receive port: it draws the packet's fate, counts it and, with edt,
// sets when it departs. It returns what happened to the packet, and the departure time in departs.
INLINE int cross(struct __sk_buff *skb, const struct packet *p, const struct hop_ref *tx, const struct hop_ref *link,
	const struct hop_ref *port, u64 arrived, u64 *departs)
{
	if (link->p->down || tx->p->down || port->p->down) {
		drop(link->h, p);
		return DOWN;
	}
	if (can_lose(&link->p->loss)) {
		u64 k = __sync_fetch_and_add(&link->h->drawn, 1) + 1;
		if (draw_loss(&link->p->loss, seed, link->h, link->n, k)) {
			drop(link->h, p);
			return LOST;
		}
	}
	u64 line = line_bytes_on(p, link->p), dur = occupancy(link->p, line);
	u64 port_line = line_bytes_on(p, port->p), port_dur = occupancy(port->p, port_line);
	if (!edt) {
		count(link->h, p, line, dur);
		count(port->h, p, port_line, port_dur);
		return SENT;
	}

	u64 ready = arrived, tx_dur = occupancy(tx->p, line_bytes_on(p, tx->p));
	u64 finish = ready + tx_dur;
	u64 start = later(ready, *(volatile u64 *)&link->h->next_free);
	if (is_full(link->p, start - ready)) {
		drop(link->h, p);
		return LINK_FULL;
	}
	// On a link that is at least as fast as the send port, packets never wait.
	if (dur > tx_dur)
		start = reserve(link->h, ready, dur);
	count(link->h, p, line, dur);
	s64 delay = draw_delay(link);
	finish = later(finish, start + dur) + delay;
	ready = in_order(&link->h->last_ready, start + delay);

	start = later(ready, *(volatile u64 *)&port->h->next_free);
	if (is_full(port->p, start - ready)) {
		drop(port->h, p);
		return PORT_FULL;
	}
	// ECN mark (RFC 3168) from half of the limit on, if the packet is ECN-capable.
	int marked = 0;
	if (port->p->queue.limit_ns && start - ready > (u64)port->p->queue.limit_ns / 2)
		marked = bpf_skb_ecn_set_ce(skb) == 1;
	start = reserve(port->h, ready, port_dur);
	count(port->h, p, port_line, port_dur);
	*departs = later(finish, start + port_dur);
	set_departure(skb, *departs);
	return marked ? MARKED : SENT;
}

SEC("tc")
int rx(struct __sk_buff *skb)
{
	struct packet p;
	struct hop_ref tx, link, port;
	u32 index = skb->ifindex;
	u32 *nic = bpf_map_lookup_elem(&port_nics, &index);
	if (!nic || parse(skb, &p, 0) < 0 || p.src >= nics)
		return TC_ACT_UNSPEC;
	int n = link_of(p.src, *nic);
	if (n < 0 || find_hop(&tx, 2 * p.src) < 0 || find_hop(&link, n) < 0 || find_hop(&port, 2 * *nic + 1) < 0)
		return TC_ACT_UNSPEC;
	u64 departs = 0, arrived = edt ? departure_of(skb) : 0;
	int what = cross(skb, &p, &tx, &link, &port, arrived, &departs);
	if (tap_snap)
		record(skb, n, what, arrived, departs);
	return what == SENT || what == MARKED ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

#include "late.h"
#include "vector.h"

// The programs call no helpers that require the GPL.
char __license[] SEC("license") = "Apache-2.0";
