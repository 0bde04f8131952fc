// SPDX-License-Identifier: Apache-2.0
//
// Late steps of several connections of one process, which share a port.
//
//	order STATE LINK_STATS SIZE...
//
// STATE, LINK_STATS and SIZE are as in threads.c. The connections are receivers, and this program plays the senders'
// process too. All but the last connection have a receive, and their senders post a message at the same time. All calls
// come late. Then the sender of the last connection posts, which is idle here. It prints
//
//	the time from the first arrival to the last, in ns
//	the late calls until the post of the last connection was read
#include "fabric.h"

#define MOST 64
#define BYTES (1 << 20)
#define LATE 3000000 // ns: all steps are due by then

static void wait_for(int64_t until)
{
	while (now() < until)
		;
}

// finish calls test until a request is complete.
static void finish(struct ddlemu_request *r)
{
	for (int done = 0; !done;)
		if (r->comm->ops->test(r, &done, NULL))
			DIE("test: %s", ddlemu_take_error());
}

static struct ddlemu_request *receive(struct ddlemu_conn *c, char *data, size_t size)
{
	struct ddlemu_request *r;
	if (c->base.ops->irecv(&c->base, data, size, &r) || r == NULL)
		DIE("irecv: %s", ddlemu_take_error());
	return r;
}

static void send_at_time(struct ddlemu_conn *c, size_t size, int64_t t)
{
	store64(&c->f->written, c->f->written + size);
	flow_post(c->f, size, t);
}

int main(int argc, char **argv)
{
	int conns = argc - 3, last = conns - 1;
	if (conns < 3 || conns > MOST)
		DIE("usage: order STATE LINK_STATS SIZE SIZE SIZE...");
	void *state = map_state(argv[1]);
	struct ddlemu_conn *c[MOST];
	struct ddlemu_request *r[MOST];
	char *data = calloc(1, BYTES);
	const struct ddlemu_gpu_memory none = { 0 };
	for (int i = 0; i < conns; i++) {
		struct ddlemu_region region = map_region(3 + i, strtoull(argv[3 + i], NULL, 10));
		c[i] = ddlemu_conn_new(&ddlemu_shm_receiver, (unsigned long)i, &region, state,
			strtoull(argv[2], NULL, 10), NULL, NULL, none);
	}
	for (int i = 0; i < last; i++)
		r[i] = receive(c[i], data, BYTES);
	int64_t posted = now(), first_due = INT64_MAX, last_due = 0;
	for (int i = 0; i < last; i++)
		send_at_time(c[i], BYTES, posted);
	wait_for(posted + LATE);
	for (int i = 0; i < last; i++) {
		finish(r[i]);
		first_due = min64(first_due, times_at(c[i]->f, 0)->due);
		last_due = max64(last_due, times_at(c[i]->f, 0)->due);
	}
	send_at_time(c[last], 1000, now());
	int calls = 0;
	for (; load64(&c[last]->f->published.posts_seen) == 0 && calls < 1000; calls++) {
		r[0] = receive(c[0], data, 1000);
		send_at_time(c[0], 1000, now());
		wait_for(now() + LATE / 10);
		finish(r[0]);
	}
	printf("%lld %d\n", (long long)(last_due - first_due), calls);
	return 0;
}
