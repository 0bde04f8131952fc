// SPDX-License-Identifier: Apache-2.0
// Programs for tests. The packet of vector is a struct vector, into which it writes the results: a test compares them
// with package link. chain draws one loss on the hop in the map, on several CPUs at once.
#pragma once

struct vector {
	u64 seed, flow, counter, line, ready, late;
	u32 hop, kind;
	struct ddlemu_params p;
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
	u32 kind = v->p.jitter.kind - DDLEMU_NORMAL;
	struct table *t = bpf_map_lookup_elem(&tables, &kind);
	v->out_draw = draw(v->seed, v->hop, v->kind, v->flow, v->counter);
	v->out_sample = jitter_of(&v->p.jitter, v->out_draw, t ? t->q : 0);
	v->out_occupy = occupancy(&v->p, v->line);
	v->out_start = reserve(&v->h, v->ready, v->out_occupy);
	v->out_lost = draw_loss(&v->p.loss, v->seed, &v->h, v->hop, v->counter);
	v->out_bucket = lateness_bucket(v->late);
	return bpf_skb_store_bytes(skb, ETH_HLEN, v, sizeof *v, 0) < 0 ? TC_ACT_SHOT : TC_ACT_OK;
}

SEC("tc")
int chain(struct __sk_buff *skb __attribute__((unused)))
{
	u32 zero = 0;
	struct vector *v = bpf_map_lookup_elem(&vectors, &zero);
	if (!v)
		return TC_ACT_SHOT;
	draw_loss(&v->p.loss, v->seed, &v->h, v->hop, __sync_fetch_and_add(&v->h.drawn, 1));
	return TC_ACT_OK;
}
