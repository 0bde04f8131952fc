// SPDX-License-Identifier: Apache-2.0

#include "host.h"

// work makes the worker at a port of the path handle message i, which is there at ready,
// and returns when the worker is done.
static int64_t work(const struct ddlemu_engine *e, uint32_t port, uint64_t i, int64_t ready, int64_t now)
{
	int64_t dur = host_time(&e->transport->host, send_size(e->flow, i));
	int64_t start = occupy(&hop_at(e, port)->host_free, ready, dur);
	add_distortion(e->flow, i, start, ready, now);
	return start + dur;
}

int64_t host_send(const struct ddlemu_engine *e, uint64_t msg, int64_t posted, int64_t now)
{
	return work(e, 0, msg, posted, now);
}

int64_t host_deliver(const struct ddlemu_engine *e, const struct ddlemu_segment *s, int64_t now)
{
	struct ddlemu_flow *f = e->flow;
	struct ddlemu_times *t = times_at(f, s->msg);
	if (t->due == DDLEMU_NEVER) {
		// The worker is free for this flow when it is done with the message before. That
		// wait is not distortion.
		t->due = work(e, e->path.n - 1, s->msg, max64(s->due, f->last_delivered), now);
		f->last_delivered = t->due;
		f->results.due_count = s->msg + 1;
	}
	return t->due;
}
