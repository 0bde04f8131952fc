// SPDX-License-Identifier: Apache-2.0

#include "parameters.h"

static void raise_time(int64_t *p, int64_t t)
{
	int64_t v = __atomic_load_n(p, __ATOMIC_SEQ_CST);
	while (v < t && !__atomic_compare_exchange_n(p, &v, t, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

void put_in_force(
	struct ddlemu_hop *h, struct ddlemu_block *blocks, uint32_t count, uint32_t n, int64_t now, int64_t retired)
{
	struct ddlemu_block *old = &blocks[umin64(__atomic_load_n(&h->block, __ATOMIC_SEQ_CST), count - 1)];
	struct ddlemu_block *next = &blocks[n];
	next->since = now;
	next->down_since = !next->params.down ? 0 : old->params.down ? old->down_since : now;
	if (old->params.down && !next->params.down)
		raise_time(&h->next_free, now);
	// Set before and after: if this process dies in between, the block must not look like one that was never used.
	__atomic_store_n(&old->retired, retired, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&h->changes, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&h->block, n, __ATOMIC_SEQ_CST);
	__atomic_store_n(&old->retired, retired, __ATOMIC_SEQ_CST);
}

// copy_block copies the block of parameters of a hop. The words are read one by one: they may be written meanwhile.
static void copy_block(struct ddlemu_in_force *to, const struct ddlemu_block *from)
{
	_Static_assert(sizeof to->params % sizeof(uint64_t) == 0, "params are words");
	uint64_t *words = (uint64_t *)&to->params;
	const uint64_t *shared = (const uint64_t *)&from->params;
	for (size_t i = 0; i < sizeof to->params / sizeof *words; i++)
		words[i] = __atomic_load_n(&shared[i], __ATOMIC_RELAXED);
	to->down_since = __atomic_load_n(&from->down_since, __ATOMIC_RELAXED);
}

// take_in_force copies the parameters in force on hop number n, unless the copy is of that already. A block is written
// again only when its hop has got another one. So all words that were read are of one change if the hop has the same
// block afterwards, and has counted no change: without the count it could have had another block in between.
static void take_in_force(const struct ddlemu_engine *e, struct ddlemu_in_force *copy, uint32_t n)
{
	const struct ddlemu_hop *h = &e->hops[n];
	for (;;) {
		uint32_t changes = __atomic_load_n(&h->changes, __ATOMIC_ACQUIRE);
		uint32_t block = __atomic_load_n(&h->block, __ATOMIC_ACQUIRE);
		if (copy->hop == n + 1 && copy->block == block && copy->changes == changes)
			return;
		copy->hop = n + 1;
		copy->block = block;
		copy->changes = changes;
		copy_block(copy, &e->blocks[block]);
		__atomic_thread_fence(__ATOMIC_ACQUIRE); // all words are read before number and count are read again
	}
}

void take_parameters(struct ddlemu_engine *e)
{
	for (uint32_t i = 0; i < e->path.n; i++)
		take_in_force(e, &e->forward[i], e->path.hop[i]);
	for (uint32_t i = 0; i < e->path.reverse_n; i++)
		take_in_force(e, &e->backward[i], e->path.reverse[i]);
}
