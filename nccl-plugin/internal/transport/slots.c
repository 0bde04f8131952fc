// SPDX-License-Identifier: Apache-2.0

#include "slots.h"

#include <stddef.h>

// The slots of all connections of a process: 8 per connection, protocol and direction. Memory that NCCL frees and gets
// again has the same addresses. If there is no place within some steps, the slot has none.
#define SLOTS (1 << 17)
#define STEPS 64

struct slot {
	uint64_t address; // atomic; 0: free. It is never freed
	uint64_t value; // atomic: of a send the operation, of a receive the record
};

int ddlemu_has_slots;

static struct slot sends[SLOTS], receives[SLOTS];

// find returns the place of an address, NULL if it has none. With `add` a free place becomes its place.
static struct slot *find(struct slot *table, const void *slot, int add)
{
	const uint64_t address = (uint64_t)(uintptr_t)slot;
	uint64_t at = (address >> 4) * 0x9e3779b97f4a7c15ull >> 32;
	for (int i = 0; i < STEPS; i++, at++) {
		struct slot *s = &table[at % SLOTS];
		uint64_t has = __atomic_load_n(&s->address, __ATOMIC_RELAXED);
		if (has == 0) {
			if (!add)
				return NULL;
			if (__atomic_compare_exchange_n(
				    &s->address, &has, address, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				return s;
		}
		if (has == address)
			return s;
	}
	return NULL;
}

static void set(struct slot *table, const void *slot, uint64_t value)
{
	struct slot *s = find(table, slot, 1);
	if (s != NULL)
		__atomic_store_n(&s->value, value, __ATOMIC_RELEASE);
}

static uint64_t get(struct slot *table, const void *slot)
{
	const struct slot *s = find(table, slot, 0);
	return s == NULL ? 0 : __atomic_load_n(&s->value, __ATOMIC_ACQUIRE);
}

void ddlemu_slot_sends(const void *slot, uint32_t op) { set(sends, slot, op); }
uint32_t ddlemu_slot_op(const void *slot) { return (uint32_t)get(sends, slot); }
void ddlemu_slot_receives(const void *slot, uint64_t record) { set(receives, slot, record); }
uint64_t ddlemu_slot_record(const void *slot) { return get(receives, slot); }
