// SPDX-License-Identifier: Apache-2.0

#include "exchange.h"

#include <sched.h>

#include "../internal/transport/call.h"

static int complete(struct exchange *x, int *moved)
{
	while (x->acked < x->sent) {
		int done = 0;
		struct ddlemu_request *r = x->sends[x->acked % x->slots];
		int bad = x->sender->ops->test(r, &done, NULL);
		if (bad)
			return bad;
		if (!done)
			break;
		x->acked++;
		*moved = 1;
	}
	while (x->arrived < x->posted) {
		int done = 0;
		struct ddlemu_request *r = x->receives[x->arrived % x->slots];
		int bad = x->receiver->ops->test(r, &done, NULL);
		if (bad)
			return bad;
		if (!done)
			break;
		x->arrived++;
		*moved = 1;
	}
	return 0;
}

static int post(struct exchange *x, int *moved)
{
	while (x->posted < x->consumed + x->slots && x->posted < x->expected) {
		struct ddlemu_request *r = NULL;
		uint64_t slot = x->posted % x->slots;
		int bad = x->receiver->ops->irecv(x->receiver, x->in + slot * x->slot_bytes, x->slot_bytes, &r);
		if (bad)
			return bad;
		if (r == NULL)
			break;
		x->receives[slot] = r;
		x->posted++;
		*moved = 1;
	}
	while (x->sent < x->written) {
		struct ddlemu_request *r = NULL;
		uint64_t slot = x->sent % x->slots;
		int bad = x->sender->ops->isend(x->sender, x->out + slot * x->slot_bytes, x->size[slot], &r);
		if (bad)
			return bad;
		if (r == NULL)
			break;
		x->sends[slot] = r;
		x->sent++;
		*moved = 1;
	}
	return 0;
}

int exchange_poll(struct exchange *all, int n, int *moved)
{
	*moved = 0;
	for (int i = 0; i < n; i++) {
		int bad = complete(&all[i], moved);
		if (!bad)
			bad = post(&all[i], moved);
		if (bad)
			return bad;
	}
	return 0;
}

int64_t exchange_now(const struct ddlemu_clock_view *view)
{
	return view == NULL ? clock_now() : clock_read(view->clock);
}

uint32_t exchange_events(struct ddlemu_clock_view *view)
{
	return view == NULL ? 0 : number_read(number_of(view, view->node, DDLEMU_EVENTS));
}

void exchange_wait(struct ddlemu_clock_view *view, uint32_t seen, int64_t t)
{
	if (view == NULL)
		sched_yield();
	else
		ddlemu_actor_idle(view, ddlemu_actor_application(view), DDLEMU_EVENTS, seen, t);
}
