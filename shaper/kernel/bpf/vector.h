// SPDX-License-Identifier: Apache-2.0
// The arithmetic by itself, for the test that holds it to package link: takes a struct
// vector as a packet and writes the results into it.
#pragma once

struct vector {
	u64 seed, flow, counter, wire, ready, late;
	u32 hop, kind;
	struct params p;
	struct hop h;
	u64 out_draw, out_occupy, out_start;
	s64 out_sample;
	u64 out_lost, out_bucket;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct vector);
} vectors SEC(".maps");

SEC("tc")
int vector(struct __sk_buff *skb)
{
	u32 zero = 0;
	struct vector *v = bpf_map_lookup_elem(&vectors, &zero);
	if (!v || bpf_skb_load_bytes(skb, ETH_HLEN, v, sizeof *v) < 0)
		return TC_ACT_SHOT;
	u32 kind = v->p.jitter_kind - NORMAL;
	struct table *t = bpf_map_lookup_elem(&tables, &kind);
	v->out_draw = draw(v->seed, v->hop, v->kind, v->flow, v->counter);
	v->out_sample = sample(v->p.jitter_kind, v->p.jitter, v->out_draw, t);
	v->out_occupy = occupy(&v->p, v->wire);
	v->out_start = reserve(&v->h, v->ready, v->out_occupy);
	v->out_lost = lost(&v->p, v->seed, v->hop, v->counter, &v->h.bad);
	v->out_bucket = bucket(v->late);
	return bpf_skb_store_bytes(skb, ETH_HLEN, v, sizeof *v, 0) < 0 ? TC_ACT_SHOT : TC_ACT_OK;
}
