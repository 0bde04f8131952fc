// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes of messages are: in the ring or in the sender's memory (see ddlemu_places).
#ifndef DDLEMU_SHM_PLACE_H
#define DDLEMU_SHM_PLACE_H

#include "conn.h"

// place_of is the entry of message i in ddlemu_places. On a real clock it is 0.
static inline uint64_t place_of(const struct ddlemu_conn *c, uint64_t i)
{
	return c->places == NULL ? 0 : load64(&c->places[i % DDLEMU_MAX_MESSAGES]);
}

// set_place says where the bytes of message i are, which is not posted yet.
static inline void set_place(struct ddlemu_conn *c, uint64_t i, const char *data, uint64_t size)
{
	if (c->places == NULL)
		return;
	uint64_t offset = (uint64_t)data - (uint64_t)c->memory.base;
	bool mapped = offset < c->memory.size && size <= c->memory.size - offset;
	store64(&c->places[i % DDLEMU_MAX_MESSAGES], mapped ? 1 + offset : 0);
}

// is_place_valid says whether a place that the sender wrote, with size bytes, is in its memory.
static inline bool is_place_valid(const struct ddlemu_conn *c, uint64_t place, uint64_t size)
{
	return place - 1 < c->memory.size && size <= c->memory.size - (place - 1);
}

#endif
