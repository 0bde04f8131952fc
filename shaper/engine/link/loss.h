// SPDX-License-Identifier: Apache-2.0
//
// Losses and reordering: what becomes of a segment's packets on the path.
#ifndef DDLEMU_LINK_LOSS_H
#define DDLEMU_LINK_LOSS_H

#include "hops.h"

// What becomes of a segment's packets.
struct fate {
	uint32_t packets; // that arrive
	uint32_t retransmitted;
	uint32_t retransmit_hops; // the retransmitted ones occupy the hops up to this one
	bool cut; // go-back-N: the receiver discards everything behind these packets
	int64_t recovery; // ns that the recovery adds
	uint32_t flags;
};

// draws_fates says whether a packet can be lost or reordered on the path.
static inline bool draws_fates(const struct ddlemu_engine *e)
{
	for (uint32_t i = 0; i < e->path.n; i++) {
		const struct ddlemu_params *p = params_at(e, i);
		if (can_lose(&p->loss) || p->reorder.p != 0)
			return true;
	}
	return false;
}

// Draws what becomes of the packets. For paths where draws_fates; use fate_of.
struct fate draw_fate(const struct ddlemu_engine *, uint32_t n, bool last, int64_t ready);

// fate_of is what becomes of a segment of n bytes that may start at ready. last: it is the
// last one of its message.
static inline struct fate fate_of(const struct ddlemu_engine *e, uint32_t n, bool last, int64_t ready)
{
	struct fate all_arrive = { .packets = packets_of(params_at(e, 0), n) };
	return draws_fates(e) ? draw_fate(e, n, last, ready) : all_arrive;
}

#endif
