// SPDX-License-Identifier: Apache-2.0
//
// A peer that rewrites what it has posted all the time, while this end uses it. The peer is a thread of this process
// with the same mapping: the thread sanitizer finds each access of this end that is not atomic, and the address
// sanitizer each access beyond a buffer or beyond the connection's memory.
//
//	rewrite STATE LINK_STATS PEER MESSAGES SIZE
//
// STATE, LINK_STATS and SIZE are as in threads.c. PEER is "sender" or "receiver".

#include "fabric.h"

#include <pthread.h>
#include <sched.h>

#define CAPACITY 4096

static struct ddlemu_flow *flow;
static int stop; // atomic

static void store(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
static void store_time(int64_t *p, int64_t t) { __atomic_store_n(p, t, __ATOMIC_RELAXED); }

// Sizes that fit a buffer of CAPACITY bytes, and others. Over tcp the largest would make the model wait for ever for
// acknowledgements of bytes that were never sent.
static const uint64_t sizes[] = { CAPACITY, 2 * CAPACITY, 100, CAPACITY + 1, 1, 0, UINT64_MAX, 1ull << 63 };
static uint64_t sizes_used;

// send_all rewrites the sends of the last messages, and posts one for each receive.
static void *send_all(void *arg)
{
	store64(&flow->written, 1ull << 40); // all bytes are in the ring
	for (uint64_t k = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); k++) {
		uint64_t posted = load64(&flow->receives_posted);
		for (uint64_t i = posted < 3 ? 0 : posted - 3; i < posted; i++) {
			struct ddlemu_send *s = send_at(flow, i);
			store(&s->size, sizes[(k + i) % sizes_used]);
			store(&s->end, (i + 2) * CAPACITY + (k % 3 == 0 ? sizes[k % sizes_used] : 0));
			store_time(&s->posted, now() - (int64_t)(k % 1000));
		}
		store64(&flow->posted, posted);
	}
	return arg;
}

// receive_all rewrites the receives of the last messages, and posts one for each send.
static void *receive_all(void *arg)
{
	for (uint64_t k = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); k++) {
		uint64_t posted = load64(&flow->posted);
		for (uint64_t i = posted < 3 ? 0 : posted - 3; i < posted; i++) {
			struct ddlemu_receive *r = receive_at(flow, i);
			store(&r->capacity, k % 8 == 7 ? 10 : CAPACITY);
			store_time(&r->posted, now() - (int64_t)(k % 1000));
		}
		store64(&flow->receives_posted, posted);
		store64(&flow->consumed, load64(&flow->written));
	}
	return arg;
}

// use_one makes one message.
static void use_one(struct ddlemu_conn *c, bool sending)
{
	char *data = malloc(CAPACITY); // of exactly this size, for the address sanitizer
	struct ddlemu_request *r = NULL;
	memset(data, 1, CAPACITY);
	while (r == NULL) {
		int bad = sending ? c->base.ops->isend(&c->base, data, CAPACITY, &r)
				  : c->base.ops->irecv(&c->base, data, CAPACITY, &r);
		if (bad)
			DIE("post: %d %s", bad, ddlemu_take_error());
		sched_yield();
	}
	int done = 0;
	while (!done) {
		size_t size = 0;
		int bad = c->base.ops->test(r, &done, &size);
		if (done && (bad || size > CAPACITY))
			DIE("test: %d, %zu bytes", bad, size);
		if (bad) // the message is too long just now
			ddlemu_take_error();
		sched_yield();
	}
	free(data);
}

int main(int argc, char **argv)
{
	if (argc != 6)
		DIE("usage: rewrite STATE LINK_STATS PEER MESSAGES SIZE");
	void *state = map_state(argv[1]);
	struct ddlemu_region region = map_region(3, strtoull(argv[5], NULL, 10));
	bool sending = strcmp(argv[3], "receiver") == 0;
	struct ddlemu_conn *c = ddlemu_conn_new(sending ? &ddlemu_shm_sender : &ddlemu_shm_receiver, 1, &region, state,
		strtoull(argv[2], NULL, 10), NULL, NULL, (struct ddlemu_gpu_memory){ 0 });
	flow = c->f;
	sizes_used = c->engine.transport->kind == DDLEMU_TCP ? 6 : 8;
	pthread_t peer;
	pthread_create(&peer, NULL, sending ? receive_all : send_all, NULL);
	int messages = atoi(argv[4]);
	for (int i = 0; i < messages; i++)
		use_one(c, sending);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(peer, NULL);
	printf("%d messages\n", messages);
	ddlemu_conn_close(c);
	ddlemu_conn_free(c);
	return 0;
}
