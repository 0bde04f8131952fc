// SPDX-License-Identifier: Apache-2.0
//
// How the plugin and, by state.LinkStats.CountDelivery, the wire count messages and their lateness.
#ifndef DDLEMU_STATE_LATENESS_H
#define DDLEMU_STATE_LATENESS_H

#include "layout.h"

// Several processes count in the same link statistics, so every change is atomic. The counters are independent of each
// other: relaxed order is enough.

// size_class_of is the entry of link statistics that counts messages of this size.
static inline struct ddlemu_class *size_class_of(struct ddlemu_link_stats *stats, uint64_t size)
{
	return &stats->size[size <= 4 << 10 ? 0 : size <= 64 << 10 ? 1 : size <= 1 << 20 ? 2 : 3];
}

// raise_to makes *p at least v and returns what it was.
static inline int64_t raise_to(int64_t *p, int64_t v)
{
	int64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
	while (old < v && !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return old;
}

// count_span extends the time from the first post to the last visible byte.
static inline void count_span(struct ddlemu_link_stats *stats, int64_t posted, int64_t visible)
{
	raise_to(&stats->last_visible, visible);
	int64_t first = __atomic_load_n(&stats->first_posted, __ATOMIC_RELAXED);
	if (first == 0)
		__atomic_compare_exchange_n(
			&stats->first_posted, &first, posted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// count_busy adds the section of [from, to) that no earlier message has covered.
static inline void count_busy(int64_t *busy, int64_t *until, int64_t from, int64_t to)
{
	int64_t covered = raise_to(until, to);
	if (from < covered)
		from = covered;
	if (to > from)
		__atomic_fetch_add(busy, to - from, __ATOMIC_RELAXED);
}

// A message that a receiver has received. Times are ns of CLOCK_MONOTONIC.
struct ddlemu_delivery {
	uint64_t size;
	int64_t posted, receive_posted;
	int64_t due; // in the model
	int64_t visible; // to the receiver's process
	int64_t distortion; // ns, see the glossary
};

// count_delivery counts a message and its lateness. The message is late by visible - max(due, receive_posted), and by
// the distortion. The limits for the verdict depend on the time scale.
static inline void count_delivery(struct ddlemu_link_stats *stats, const struct ddlemu_delivery *d, int64_t scale)
{
	int64_t due = d->due > d->receive_posted ? d->due : d->receive_posted, time = d->due - d->posted;
	int64_t late = (d->visible > due ? d->visible - due : 0) + d->distortion;
	struct ddlemu_class *k = size_class_of(stats, d->size);
	__atomic_fetch_add(&k->messages, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&k->bytes, d->size, __ATOMIC_RELAXED);
	if (exceeds(late, time, DDLEMU_P50_FLOOR * scale, DDLEMU_P50_PART))
		__atomic_fetch_add(&k->over_p50, 1, __ATOMIC_RELAXED);
	if (exceeds(late, time, DDLEMU_P99_FLOOR * scale, DDLEMU_P99_PART))
		__atomic_fetch_add(&k->over_p99, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&k->sum_late, late, __ATOMIC_RELAXED);
	__atomic_fetch_add(&k->sum_time, time, __ATOMIC_RELAXED);
	raise_to(&k->max_late, late);
	__atomic_fetch_add(&k->late[lateness_bucket(late)], 1, __ATOMIC_RELAXED);
	// The link is backlogged while a posted message is not finished: in the model until it is due, in reality until
	// it is visible.
	count_busy(&stats->model_busy, &stats->model_until, d->posted, due);
	count_busy(&stats->wall_busy, &stats->wall_until, d->posted, due + late);
	if (d->distortion != 0)
		__atomic_fetch_add(&stats->distortion, d->distortion, __ATOMIC_RELAXED);
	count_span(stats, d->posted, d->visible);
}

#endif
