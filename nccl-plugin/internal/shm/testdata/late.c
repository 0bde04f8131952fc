// SPDX-License-Identifier: Apache-2.0
//
// What a call costs that is late, with and without idle connections beside the one that it is for.
//
//	late STATE LINK_STATS ROUNDS SIZE...
//
// STATE, LINK_STATS and SIZE are as in threads.c. The first connection is the one in use. It prints the least time of
// ROUNDS calls, in ns: with that connection alone, then with the others.

#include "fabric.h"

#define MOST 128
#define BYTES (64 << 10)
#define LATE 200000 // ns: all steps of a message are due by then

static void *state;
static uint64_t link_stats;

struct pair {
	struct ddlemu_conn *sender, *receiver;
};

static struct pair new_pair(const struct ddlemu_region *region)
{
	const struct ddlemu_gpu_memory none = { 0 };
	return (struct pair){ ddlemu_conn_new(&ddlemu_shm_sender, 1, region, state, link_stats, NULL, NULL, none),
		ddlemu_conn_new(&ddlemu_shm_receiver, 2, region, state, link_stats, NULL, NULL, none) };
}

// finish calls test until a request is complete.
static void finish(struct ddlemu_request *r)
{
	for (int done = 0; !done;)
		if (r->comm->ops->test(r, &done, NULL))
			DIE("test: %s", ddlemu_take_error());
}

// late_call sends a message and returns what the first call of test costs, which is late.
static int64_t late_call(struct pair p, char *data)
{
	struct ddlemu_request *s, *r;
	if (p.receiver->base.ops->irecv(&p.receiver->base, data + BYTES, BYTES, &r) || r == NULL ||
		p.sender->base.ops->isend(&p.sender->base, data, BYTES, &s) || s == NULL)
		DIE("post: %s", ddlemu_take_error());
	int64_t posted = now(), begin, took;
	do
		begin = now();
	while (begin < posted + LATE);
	int done;
	if (s->comm->ops->test(s, &done, NULL))
		DIE("test: %s", ddlemu_take_error());
	took = now() - begin;
	if (!done)
		finish(s);
	finish(r);
	return took;
}

static int64_t least(struct pair p, char *data, int rounds)
{
	int64_t best = INT64_MAX;
	for (int i = 0; i < rounds; i++)
		best = min64(best, late_call(p, data));
	return best;
}

int main(int argc, char **argv)
{
	int conns = argc - 4;
	if (conns < 2 || conns > MOST)
		DIE("usage: late STATE LINK_STATS ROUNDS SIZE SIZE...");
	state = map_state(argv[1]);
	link_stats = strtoull(argv[2], NULL, 10);
	int rounds = atoi(argv[3]);
	char *data = calloc(2, BYTES);
	struct ddlemu_region region[MOST];
	for (int i = 0; i < conns; i++)
		region[i] = map_region(3 + i, strtoull(argv[4 + i], NULL, 10));
	struct pair busy = new_pair(&region[0]);
	int64_t alone = least(busy, data, rounds);
	for (int i = 1; i < conns; i++)
		late_call(new_pair(&region[i]), data); // used once, and idle from then on
	printf("%lld %lld\n", (long long)alone, (long long)least(busy, data, rounds));
	return 0;
}
