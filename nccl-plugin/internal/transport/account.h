// SPDX-License-Identifier: Apache-2.0
//
// How every datapath counts a message in its job's cell of the link (shaper/state/layout.h).
// Several processes count in one cell: all additions are atomic.
#ifndef DDLEMU_ACCOUNT_H
#define DDLEMU_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "../../../shaper/state/layout.h"

// size_class_of is the entry of a cell that counts messages of this size.
static inline struct ddlemu_class *size_class_of(struct ddlemu_cell *cell, uint64_t size)
{
	return &cell->size[size <= 4 << 10 ? 0 : size <= 64 << 10 ? 1 : size <= 1 << 20 ? 2 : 3];
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
static inline void count_span(struct ddlemu_cell *cell, int64_t posted, int64_t visible)
{
	raise_to(&cell->last_visible, visible);
	int64_t first = __atomic_load_n(&cell->first_posted, __ATOMIC_RELAXED);
	if (first == 0)
		__atomic_compare_exchange_n(
			&cell->first_posted, &first, posted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#endif
