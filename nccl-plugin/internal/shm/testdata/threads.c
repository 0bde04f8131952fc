// SPDX-License-Identifier: Apache-2.0
//
// Both ends of several connections, as two threads of one process with one mapping, so that gcc's sanitizers see the
// accesses of both: the thread sanitizer compares addresses. A third thread makes and ends connections meanwhile.
//
//	threads STATE LINK_STATS SEED MESSAGES DEPTH SIZE...
//
// STATE is the fabric's file, LINK_STATS the offset of the job's counters in it, DEPTH how
// many messages of a connection are in flight at once, SIZE the size of each connection's memory, whose descriptors are
// 3, 4, ...; the last one is the third thread's. Payload, order and sizes are checked.

#include "fabric.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#define MAX_CONNS 16

static int conns, messages, depth;
static uint64_t seed;
static struct ddlemu_conn *sender[MAX_CONNS], *receiver[MAX_CONNS];
static void *state;
static struct ddlemu_region spare;
static uint64_t link_stats;
static int stop; // atomic

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

// key_of determines the content and size of message i: both ends compute it.
static uint64_t key_of(int conn, int i) { return mix(seed + (uint64_t)conn * 1000003 + (uint64_t)i * 97); }

static size_t size_of(int conn, int i)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 120, 127, 128, 129, 1000, 4096, 65535, 65536, 65537, 300001 };
	return sizes[key_of(conn, i) % (sizeof sizes / sizeof *sizes)];
}

static char byte_at(uint64_t key, size_t k) { return (char)(key >> k % 8 * 8 ^ k / 8 * 31); }

// One end's messages in flight, oldest first. Each has a buffer of exactly its size, so that the address sanitizer sees
// an access beyond it.
struct in_flight {
	struct ddlemu_request *request[DDLEMU_MAX_REQUESTS];
	char *data[DDLEMU_MAX_REQUESTS];
	size_t capacity[DDLEMU_MAX_REQUESTS];
	int next, done;
};

static void post(struct ddlemu_conn *c, struct in_flight *w, int conn, int sending)
{
	while (w->next < messages && w->next - w->done < depth) {
		int slot = w->next % DDLEMU_MAX_REQUESTS;
		size_t size = size_of(conn, w->next);
		if (!sending)
			size += key_of(conn, w->next) >> 32 & 63; // the receive may be longer
		if (w->data[slot] == NULL) {
			w->data[slot] = malloc(size + 1); // malloc(0) may be NULL
			w->capacity[slot] = size;
			for (size_t k = 0; sending && k < size; k++)
				w->data[slot][k] = byte_at(key_of(conn, w->next), k);
		}
		int bad = sending ? c->base.ops->isend(&c->base, w->data[slot], size, &w->request[slot])
				  : c->base.ops->irecv(&c->base, w->data[slot], size, &w->request[slot]);
		if (bad)
			DIE("post message %d of connection %d: %d %s", w->next, conn, bad, ddlemu_take_error());
		if (w->request[slot] == NULL)
			return;
		w->next++;
	}
}

static void reap(struct in_flight *w, int conn, int sending)
{
	while (w->done < w->next) {
		int slot = w->done % DDLEMU_MAX_REQUESTS, done;
		size_t size = 0, want = size_of(conn, w->done);
		struct ddlemu_request *r = w->request[slot];
		int bad = r->comm->ops->test(r, &done, &size);
		if (bad)
			DIE("test message %d of connection %d: %d %s", w->done, conn, bad, ddlemu_take_error());
		if (!done)
			return;
		if (size != want)
			DIE("message %d of connection %d has %zu bytes, not %zu", w->done, conn, size, want);
		for (size_t k = 0; !sending && k < size; k++)
			if (w->data[slot][k] != byte_at(key_of(conn, w->done), k))
				DIE("byte %zu of message %d of connection %d is wrong", k, w->done, conn);
		free(w->data[slot]);
		w->data[slot] = NULL;
		w->done++;
	}
}

static void *run_end(void *arg)
{
	int sending = arg != NULL, unfinished = conns;
	struct ddlemu_conn **end = sending ? sender : receiver;
	struct in_flight *flights = calloc((size_t)conns, sizeof *flights);
	while (unfinished > 0) {
		unfinished = 0;
		for (int i = 0; i < conns; i++) {
			post(end[i], &flights[i], i, sending);
			reap(&flights[i], i, sending);
			unfinished += flights[i].done < messages;
		}
		sched_yield(); // as NCCL does after a round
	}
	// The sender closes at once: some messages may not have been received.
	for (int i = 0; sending && i < conns; i++)
		ddlemu_conn_close(end[i]);
	free(flights);
	return NULL;
}

static const struct ddlemu_gpu_memory none;

static void *run_control(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct ddlemu_conn *c =
			ddlemu_conn_new(&ddlemu_shm_receiver, 99, &spare, state, link_stats, NULL, NULL, none);
		if (c == NULL)
			DIE("no memory");
		usleep(500);
		ddlemu_set_dead(&c->base, DDLEMU_ALIVE);
		ddlemu_conn_close(c);
		ddlemu_conn_free(c);
	}
	return NULL;
}

// A receive fails after the sender has closed and all its messages were received.
static void check_closed(int conn)
{
	char b[8];
	struct ddlemu_request *r;
	int done = 0, bad = receiver[conn]->base.ops->irecv(&receiver[conn]->base, b, sizeof b, &r);
	if (bad || r == NULL)
		DIE("irecv after the close: %d", bad);
	if (r->comm->ops->test(r, &done, NULL) != DDLEMU_REMOTE_ERROR || done)
		DIE("connection %d: no error after the sender closed", conn);
	ddlemu_take_error();
}

int main(int argc, char **argv)
{
	conns = argc - 7;
	if (conns < 1 || conns > MAX_CONNS)
		DIE("usage: threads STATE LINK_STATS SEED MESSAGES DEPTH SIZE... SPARE");
	state = map_state(argv[1]);
	link_stats = strtoull(argv[2], NULL, 10);
	seed = strtoull(argv[3], NULL, 10);
	messages = atoi(argv[4]);
	depth = atoi(argv[5]);
	for (int i = 0; i < conns; i++) {
		struct ddlemu_region region = map_region(3 + i, strtoull(argv[6 + i], NULL, 10));
		sender[i] = ddlemu_conn_new(
			&ddlemu_shm_sender, (unsigned long)i, &region, state, link_stats, NULL, NULL, none);
		receiver[i] = ddlemu_conn_new(
			&ddlemu_shm_receiver, (unsigned long)i, &region, state, link_stats, NULL, NULL, none);
	}
	spare = map_region(3 + conns, strtoull(argv[6 + conns], NULL, 10));

	pthread_t send, recv, control;
	pthread_create(&control, NULL, run_control, NULL);
	pthread_create(&send, NULL, run_end, &conns);
	pthread_create(&recv, NULL, run_end, NULL);
	pthread_join(send, NULL);
	pthread_join(recv, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(control, NULL);
	for (int i = 0; i < conns; i++) {
		check_closed(i);
		ddlemu_conn_close(receiver[i]);
		ddlemu_conn_free(sender[i]);
		ddlemu_conn_free(receiver[i]);
	}
	printf("%d connections, %d messages each: ok\n", conns, messages);
	return 0;
}
