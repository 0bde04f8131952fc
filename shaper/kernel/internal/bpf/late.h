// SPDX-License-Identifier: Apache-2.0
// The lateness of packets: counters for the verdict, see struct ddlemu_link_stats.
#pragma once

#include "../../../fabric/state/limits.h"

#define SIZE_CLASSES 2 // up to 4 KiB, and larger; no packet has more than 64 KiB

struct late_class {
	u64 messages, bytes, over_p50, over_p99;
	u64 sum_late, sum_time, max_late;
	u32 late[DDLEMU_LATE_BUCKETS];
};

struct lateness {
	struct bpf_spin_lock lock;
	u32 unused;
	struct late_class size[SIZE_CLASSES];
	u64 model_busy, wall_busy, model_until, wall_until;
	u64 first_posted, last_visible;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // hops
	__type(key, u32);
	__type(value, struct lateness);
} late SEC(".maps");

const volatile u32 time_scale = 1;

// add_busy adds the share of an interval that no earlier packet has covered.
INLINE void add_busy(u64 *sum, u64 *until, u64 from, u64 to)
{
	from = later(from, *until);
	if (to > from) {
		*sum += to - from;
		*until = to;
	}
}

SEC("tc")
int arrive(struct __sk_buff *skb)
{
	struct packet p;
	struct hop_ref link, port;
	u64 now = bpf_ktime_get_ns(), due = skb->tstamp;
	if (skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO || parse(skb, &p, 0) < 0)
		return TC_ACT_UNSPEC;
	int n = link_of(p.src, p.dst);
	if (n < 0 || find_hop(&link, n) < 0 || find_hop(&port, 2 * p.dst + 1) < 0)
		return TC_ACT_UNSPEC;
	u32 key = n;
	struct lateness *l = bpf_map_lookup_elem(&late, &key);
	if (!l)
		return TC_ACT_UNSPEC;
	// The packet's time without waiting times in queues.
	u64 time = link.p->latency + occupancy(port.p, line_bytes_on(&p, port.p));
	u64 lateness = now > due ? now - due : 0, scale = time_scale;
	u32 b = lateness_bucket(lateness) & (DDLEMU_LATE_BUCKETS - 1);
	struct late_class *c = &l->size[p.payload > 4096];
	bpf_spin_lock(&l->lock);
	c->messages++;
	c->bytes += p.payload;
	c->over_p50 += exceeds(lateness, time, DDLEMU_P50_FLOOR * scale, DDLEMU_P50_PART);
	c->over_p99 += exceeds(lateness, time, DDLEMU_P99_FLOOR * scale, DDLEMU_P99_PART);
	c->sum_late += lateness;
	c->sum_time += time;
	c->max_late = later(c->max_late, lateness);
	c->late[b]++;
	add_busy(&l->model_busy, &l->model_until, due - time, due);
	add_busy(&l->wall_busy, &l->wall_until, due - time, due + lateness);
	l->last_visible = later(l->last_visible, now);
	if (!l->first_posted)
		l->first_posted = due - time;
	bpf_spin_unlock(&l->lock);
	return TC_ACT_UNSPEC;
}
