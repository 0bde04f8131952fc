// SPDX-License-Identifier: Apache-2.0

#include "failure.h"

#include "../transport/call.h"

int conn_fail(struct ddlemu_conn *c, uint32_t broken, enum ddlemu_death dead, bool peer_closed)
{
	if (broken == DDLEMU_LINK_DOWN) {
		if (!c->counted_broken)
			add64(&c->stats->broken, 1);
		c->counted_broken = true;
		return FAIL(DDLEMU_REMOTE_ERROR,
			"the emulated link node%d:node%d was down for longer than the transport allows", c->src_node,
			c->dst_node);
	}
	if (broken == DDLEMU_CORRUPT)
		return fail_corrupt();
	if (dead == DDLEMU_RANK_DIED)
		return FAIL(DDLEMU_REMOTE_ERROR, RANK_DIED_TEXT, c->base.lost_rank);
	if (broken)
		return FAIL(DDLEMU_REMOTE_ERROR, "a rank died while its process ran the virtual clock");
	if (dead == DDLEMU_FABRIC_DOWN)
		return FAIL(DDLEMU_REMOTE_ERROR, "the fabric was taken down");
	if (dead)
		return FAIL(DDLEMU_REMOTE_ERROR, "the peer's process died");
	return peer_closed ? FAIL(DDLEMU_REMOTE_ERROR, "the peer closed the connection") : DDLEMU_SUCCESS;
}

int fail_corrupt(void)
{
	return FAIL(DDLEMU_REMOTE_ERROR, "the peer overwrote its fields of the connection with invalid values");
}

int fail_too_long(uint64_t size, uint64_t capacity)
{
	return FAIL(DDLEMU_INVALID_USAGE,
		"message of %llu bytes is longer than the receive of %llu bytes posted for it",
		(unsigned long long)size, (unsigned long long)capacity);
}
