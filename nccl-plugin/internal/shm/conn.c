// SPDX-License-Identifier: Apache-2.0
//
// The life of a message on the shm datapath:
//
//  1. isend posts the message in the flow and copies its first bytes into the ring (copy_in). irecv posts the
//     receive. With a virtual clock the bytes stay where they are if the receiver maps that memory (ddlemu_places).
//  2. Every call on either end makes the steps of the link model whose time has come (advance). The sender's calls
//     copy the message's other bytes into the ring.
//  3. test of the receive copies the bytes that have arrived, in the model, out of the ring (copy_out). When the
//     message is due and copied, it counts the message and its lateness.
//  4. test reports the receive when the message is copied out. It reports the send when the model says that it is
//     complete and its bytes are in the ring.
//
// No call waits, allocates memory or enters the kernel (clock_gettime is in the vDSO).
//
// Threads and processes. NCCL makes the calls on one end from one thread at a time. The flow and the ring are memory
// that both processes map; shaper/engine/link/flow.h says which end writes which field. The link model's state belongs
// to whoever has flow->lock. A call only tries that lock: if the other end has it, the other end makes the steps. To
// make steps in time, a call may also advance the process's other connections. Their list has a lock, which calls of
// NCCL only try; ddlemu_conn_new and ddlemu_conn_unlink, which are not calls of NCCL's progress thread, wait for it.
// The thread that watches the peers writes base.dead.
//
// Memory order. A count is stored with release after what it counts, and loaded with acquire before that is read:
//
//	posted, receives_posted     the entries of sends and receives
//	written                     the bytes in the ring
//	consumed                    the free space in the ring: the bytes were read
//	receives_done               the entries of messages that may be used again
//	published.*                 the entries of times
//	lock, sender_closed, receiver_closed, receive_error, broken, dead    everything that was written before
//
// An end loads its own counts without an order. The peer may overwrite anything in the shared memory. So this end's
// pointers and the ring's size are private, and a size is checked after it has been copied.

#include "conn.h"

#include <sched.h>
#include <stdlib.h>

#include "../../../shaper/fabric/state/lateness.h"
#include "../transport/call.h"
#include "../transport/copy.h"
#include "../transport/slots.h"
#include "fault.h"

// --- advancing the link model

// The connections of this process. One is active if its model has a step to make or this end has a request that test
// has not returned. A late call looks at the active ones, so what it costs does not depend on the others.
static struct {
	uint32_t lock; // for all but `called`, and for advancing several connections in the order of their steps
	struct ddlemu_conn *first; // of all, the newest
	struct ddlemu_conn *looked; // the one of them that was looked at last; NULL: the next one is the first
	struct ddlemu_conn *active;
	struct ddlemu_conn *called; // atomic: active since a call found a step, and not in `active` yet
	// The connections with a late step, while catch_up runs: a heap with the earliest step first. It has space for
	// all connections.
	struct late_step *late;
	size_t late_count;
	size_t count; // connections
	uint64_t made; // connections, so far
} list;

struct late_step {
	int64_t at; // ns
	struct ddlemu_conn *c;
};

static bool try_lock_list(void)
{
	uint32_t unlocked = 0;
	return __atomic_compare_exchange_n(&list.lock, &unlocked, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void unlock_list(void) { __atomic_store_n(&list.lock, 0, __ATOMIC_RELEASE); }

static bool is_sender(const struct ddlemu_conn *c) { return c->base.ops == &ddlemu_shm_sender; }

// is_receive_needed says whether the model must read a receive that it has not read (number `seen`). It must while it
// knows a message whose times depend on receives. Otherwise it reads the receive with the next message, in the sender's
// call, and its cache lines stay with the sender's core.
static bool is_receive_needed(struct ddlemu_flow *f, uint64_t seen)
{
	return load64(&f->receives_posted) > seen && load64(&f->published.posts_seen) > load64(&f->published.due_count);
}

// next_step is the time of the model's next step on this connection: what the model published, or the time of a post
// that it has not read.
static int64_t next_step(struct ddlemu_flow *f)
{
	int64_t next = flow_next(f);
	uint64_t posts = load64(&f->published.posts_seen), receives = load64(&f->published.receives_seen);
	if (load64(&f->posted) > posts)
		next = min64(next, send_posted(f, posts));
	if (is_receive_needed(f, receives))
		next = min64(next, receive_posted(f, receives));
	return next;
}

// The end that posts something advances the model in the same call. The other end looks for posts only every
// PEER_INTERVAL ns, and advances the model only for a post that is at least PEER_DELAY ns old, which the first end has
// not handled in time. Otherwise every message would move the cache lines of the post and of the model between the two
// cores.
#define PEER_DELAY 400
#define PEER_INTERVAL 2000

// must_check_peer says whether it is time to look for posts of the other end, and notes the time if it is.
static bool must_check_peer(struct ddlemu_conn *c, int64_t now)
{
	if (now - c->peer_checked < PEER_INTERVAL)
		return false;
	c->peer_checked = now;
	return true;
}

// has_step says whether the model has a step to make by now.
static bool has_step(struct ddlemu_conn *c, int64_t now)
{
	struct ddlemu_flow *f = c->f;
	bool sender = is_sender(c), check_peer = must_check_peer(c, now);
	if (flow_next(f) <= now)
		return true;
	if (sender || check_peer) {
		uint64_t posts = load64(&f->published.posts_seen);
		if (load64(&f->posted) > posts && send_posted(f, posts) + (sender ? 0 : PEER_DELAY) <= now)
			return true;
	}
	if (!sender || check_peer) {
		uint64_t receives = load64(&f->published.receives_seen);
		if (is_receive_needed(f, receives) && receive_posted(f, receives) + (sender ? PEER_DELAY : 0) <= now)
			return true;
	}
	return false;
}

// advance_to makes the steps of one connection up to time t. It fails if the other end has the lock, and makes them.
static bool advance_to(struct ddlemu_conn *c, int64_t t)
{
	struct ddlemu_flow *f = c->f;
	uint32_t unlocked = 0, end = is_sender(c) ? DDLEMU_SENDER : DDLEMU_RECEIVER;
	if (!__atomic_compare_exchange_n(&f->lock, &unlocked, end, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	flow_advance(&c->engine, t);
	__atomic_store_n(&f->lock, 0, __ATOMIC_RELEASE);
	return true;
}

// --- active connections

// activate makes a connection active. Several threads may call it, each for connections of its own.
static inline void activate(struct ddlemu_conn *c)
{
	if (__atomic_load_n(&c->active, __ATOMIC_RELAXED) != 0 ||
		__atomic_exchange_n(&c->active, 1, __ATOMIC_RELAXED) != 0)
		return;
	c->next_active = __atomic_load_n(&list.called, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&list.called, &c->next_active, c, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

// take_called moves the connections that calls have made active to the list of active ones. Only with the lock.
static void take_called(void)
{
	if (__atomic_load_n(&list.called, __ATOMIC_RELAXED) == NULL)
		return;
	struct ddlemu_conn *c = __atomic_exchange_n(&list.called, NULL, __ATOMIC_ACQUIRE);
	while (c != NULL) {
		struct ddlemu_conn *next = c->next_active;
		c->next_active = list.active;
		list.active = c;
		c = next;
	}
}

// look_at_next looks at one connection, whether it is active or not, and at the next one in the next late call. No call
// of this process tells of a step that only the other end knows. The other end makes it; this end helps it if it is
// late.
static void look_at_next(void)
{
	struct ddlemu_conn *c = list.looked == NULL || list.looked->next == NULL ? list.first : list.looked->next;
	list.looked = c;
	if (c != NULL && c->clock == NULL && next_step(c->f) != DDLEMU_NEVER)
		activate(c);
}

// --- late steps

// is_before says whether step a is made before step b: by time, then the newer connection first.
static bool is_before(struct late_step a, struct late_step b)
{
	return a.at != b.at ? a.at < b.at : a.c->number > b.c->number;
}

static void add_late(struct late_step x)
{
	size_t i = list.late_count++;
	for (; i > 0 && is_before(x, list.late[(i - 1) / 2]); i = (i - 1) / 2)
		list.late[i] = list.late[(i - 1) / 2];
	list.late[i] = x;
}

// replace_first puts x in the place of the first step, then where it belongs.
static void replace_first(struct late_step x)
{
	size_t i = 0;
	for (size_t child = 1; child < list.late_count; child = 2 * i + 1) {
		if (child + 1 < list.late_count && is_before(list.late[child + 1], list.late[child]))
			child++;
		if (!is_before(list.late[child], x))
			break;
		list.late[i] = list.late[child];
		i = child;
	}
	list.late[i] = x;
}

static void remove_first(void)
{
	struct late_step last = list.late[--list.late_count];
	if (list.late_count > 0)
		replace_first(last);
}

// has_request says whether this end has a request that test has not returned.
static bool has_request(const struct ddlemu_conn *c)
{
	const struct ddlemu_flow *f = c->f;
	return is_sender(c) ? load64(&f->posted) != load64(&f->sends_done)
			    : load64(&f->receives_posted) != load64(&f->receives_done);
}

// find_late finds the active connections with a step before now. It removes those that are not active any more.
static void find_late(int64_t now)
{
	list.late_count = 0;
	for (struct ddlemu_conn **p = &list.active, *c; (c = *p) != NULL;) {
		int64_t next = next_step(c->f);
		if (next < now)
			add_late((struct late_step){ next, c });
		if (next != DDLEMU_NEVER || has_request(c)) {
			p = &c->next_active;
			continue;
		}
		*p = c->next_active;
		__atomic_store_n(&c->active, 0, __ATOMIC_RELEASE); // last: a call may make it active at once
	}
}

// A call that comes later than this (ns) may have kept other flows waiting too. It is half of the shortest segment of a
// 400 Gb/s link.
#define CATCH_UP 600
#define CATCH_UP_STEPS 256 // so that one call stays short

// catch_up makes the steps of all connections of this process in the order of their times, as if each had been polled
// in time. Otherwise the connection that is polled first would make all its steps before the others. A connection whose
// other end has the lock is left out: that end makes its steps, and may be stopped.
static void catch_up(int64_t now)
{
	if (!try_lock_list())
		return;
	look_at_next();
	take_called();
	find_late(now);
	for (int i = 0; i < CATCH_UP_STEPS && list.late_count > 0; i++) {
		struct late_step first = list.late[0];
		int64_t next = advance_to(first.c, first.at) ? next_step(first.c->f) : DDLEMU_NEVER;
		if (next < now)
			replace_first((struct late_step){ next, first.c });
		else
			remove_first();
	}
	unlock_list();
}

// advance_now makes the steps up to now; those of other connections too, if this call is late. If this connection then
// still has a step that is late, because another thread has the list or because of CATCH_UP_STEPS, the next call goes
// on: the connection must not advance before the others.
static void advance_now(struct ddlemu_conn *c, int64_t now)
{
	activate(c);
	if (next_step(c->f) < now - CATCH_UP)
		catch_up(now);
	if (next_step(c->f) >= now - CATCH_UP)
		advance_to(c, now);
}

// advance makes the steps up to now, if there are any.
static void advance(struct ddlemu_conn *c, int64_t now)
{
	if (c->clock != NULL)
		return;
	if (has_step(c, now))
		advance_now(c, now);
	else if (flow_next(c->f) != DDLEMU_NEVER)
		activate(c);
}

// --- the virtual clock

// With a virtual clock whoever runs the clock makes the steps, and knows what both ends wait for (shaper/engine/clock).

// time_of is the connection's time: it stands still during a call if the clock is virtual.
static int64_t time_of(const struct ddlemu_conn *c)
{
	return c->clock == NULL ? clock_now() : clock_read(c->clock->clock);
}

// after_post makes the model read what this end has posted.
static void after_post(struct ddlemu_conn *c, int64_t now)
{
	if (c->clock != NULL) {
		ddlemu_flow_posted(c->clock, c->clock_flow);
		return;
	}
	activate(c);
	advance(c, now);
}

// An end that waits for something that the other end does with the ring or the tables, which the model does not see,
// says so before it looks for the last time. The other end looks whether somebody waits after it has done that.

static uint32_t *waits_of(struct ddlemu_conn *c, bool sender)
{
	return sender ? &c->clock_flow->sender_waits : &c->clock_flow->receiver_waits;
}

// must_look_again says whether this end, which found nothing, has to look once more before it waits.
static bool must_look_again(struct ddlemu_conn *c)
{
	return c->clock != NULL && __atomic_exchange_n(waits_of(c, is_sender(c)), 1, __ATOMIC_SEQ_CST) == 0;
}

static void stop_waiting(struct ddlemu_conn *c)
{
	if (c->clock != NULL && __atomic_load_n(waits_of(c, is_sender(c)), __ATOMIC_RELAXED) != 0)
		__atomic_store_n(waits_of(c, is_sender(c)), 0, __ATOMIC_SEQ_CST);
}

// tell_waiting wakes the other end if it waits for what this end has just done.
static void tell_waiting(struct ddlemu_conn *c)
{
	if (c->clock == NULL)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	bool sender = is_sender(c);
	if (__atomic_load_n(waits_of(c, !sender), __ATOMIC_SEQ_CST) != 0)
		ddlemu_node_raise(
			c->clock, sender ? c->clock_flow->receiver_node : c->clock_flow->sender_node, DDLEMU_ACTS);
}

// raise_acts tells the threads of this node that they may see something new: NCCL's kernels poll the bytes.
static void raise_acts(struct ddlemu_conn *c)
{
	if (c->clock != NULL)
		ddlemu_node_raise(c->clock, c->clock->node, DDLEMU_ACTS);
}

// --- failures

#define CORRUPT_TEXT "the peer overwrote its fields of the connection with invalid values"

// failure returns why a connection cannot go on, given what the caller has read of the peer's state.
static int failure(struct ddlemu_conn *c, enum ddlemu_death dead, bool peer_closed)
{
	uint32_t broken = __atomic_load_n(&c->f->broken, __ATOMIC_ACQUIRE);
	if (broken == DDLEMU_LINK_DOWN) {
		if (!c->counted_broken)
			add64(&c->stats->broken, 1);
		c->counted_broken = true;
		return FAIL(DDLEMU_REMOTE_ERROR,
			"the emulated link node%d:node%d was down for longer than the transport allows", c->src_node,
			c->dst_node);
	}
	if (broken == DDLEMU_CORRUPT)
		return FAIL(DDLEMU_REMOTE_ERROR, CORRUPT_TEXT);
	if (dead == DDLEMU_RANK_DIED)
		return FAIL(DDLEMU_REMOTE_ERROR, RANK_DIED_TEXT, c->base.lost_rank);
	if (broken)
		return FAIL(DDLEMU_REMOTE_ERROR, "a rank died while its process ran the virtual clock");
	if (dead == DDLEMU_FABRIC_DOWN)
		return FAIL(DDLEMU_REMOTE_ERROR, "the fabric was taken down");
	if (dead)
		return FAIL(DDLEMU_REMOTE_ERROR, "the peer's process died");
	if (peer_closed)
		return FAIL(DDLEMU_REMOTE_ERROR, "the peer closed the connection");
	return DDLEMU_SUCCESS;
}

static enum ddlemu_death death(struct ddlemu_conn *c) { return __atomic_load_n(&c->base.dead, __ATOMIC_ACQUIRE); }

static bool is_set(const uint32_t *closed) { return __atomic_load_n(closed, __ATOMIC_ACQUIRE) != 0; }

// is_lock_lost says whether the sender died while it advanced the model: the lock is never released.
static bool is_lock_lost(struct ddlemu_conn *c, enum ddlemu_death dead)
{
	return dead && __atomic_load_n(&c->f->lock, __ATOMIC_ACQUIRE) == DDLEMU_SENDER;
}

static int fail_too_long(uint64_t size, uint64_t capacity)
{
	return FAIL(DDLEMU_INVALID_USAGE,
		"message of %llu bytes is longer than the receive of %llu bytes posted for it",
		(unsigned long long)size, (unsigned long long)capacity);
}

// --- both ends

// new_request returns the request for a message, NULL if as many as NCCL may have are not complete.
static struct ddlemu_conn_request *new_request(struct ddlemu_conn *c, uint64_t msg, char *data, uint64_t size)
{
	struct ddlemu_conn_request *r = &c->req[msg % DDLEMU_MAX_REQUESTS];
	if (r->busy)
		return NULL;
	*r = (struct ddlemu_conn_request){ .base.comm = &c->base, .msg = msg, .data = data, .size = size, .busy = 1 };
	return r;
}

// complete gives a request back to NCCL.
static int complete(struct ddlemu_conn_request *r, uint64_t *count, int *done, size_t *size)
{
	if (size != NULL)
		*size = r->size;
	r->busy = 0;
	store64(count, read64(count) + 1);
	tell_waiting((struct ddlemu_conn *)r->base.comm);
	*done = 1;
	return DDLEMU_SUCCESS;
}

// copy_budget is how many bytes this call may copy.
static uint64_t copy_budget(struct ddlemu_conn *c, int64_t now)
{
	if (c->clock != NULL)
		return UINT64_MAX; // nobody else has to act meanwhile
	int64_t idle = now - c->last_call;
	c->last_call = now;
	return idle > DDLEMU_IDLE_LONG ? DDLEMU_COPY_AFTER_IDLE : DDLEMU_COPY_PER_CALL;
}

// --- the ledger

static bool has_ledger(const struct ddlemu_conn *c) { return c->ledger.next != NULL; }

static uint32_t bounded(int64_t ns) { return (uint32_t)min64(max64(ns, 0), UINT32_MAX); }

// Without a ledger, a call costs one comparison for it: what writes the ledger is compiled to another section than the
// rest of the path.
#define LEDGER __attribute__((noinline, cold))

// note_time notes that NCCL has called, in the calls of this thread.
static inline void note_time(struct ddlemu_calls *calls, int64_t now)
{
	if (calls->outstanding > 0)
		calls->gap = max64(calls->gap, now - calls->last);
	calls->last = now;
}

LEDGER static void write_call(int64_t now) { note_time(ddlemu_calls(), now); }

static inline void note_call(const struct ddlemu_conn *c, int64_t now)
{
	if (has_ledger(c))
		write_call(now);
}

// write_post makes the record of a request, which has just been posted.
LEDGER static void write_post(struct ddlemu_conn *c, struct ddlemu_conn_request *r, int64_t now)
{
	struct ddlemu_calls *calls = ddlemu_calls();
	note_time(calls, now);
	struct ddlemu_record *record = ledger_begin(&c->ledger, &r->base.record);
	record->kind = is_sender(c) ? DDLEMU_SEND : DDLEMU_RECEIVE;
	record->late = is_sender(c) && c->clock == NULL ? bounded(calls->gap) : 0;
	record->conn = c->ledger_conn;
	record->op = is_sender(c) && ddlemu_has_slots ? ddlemu_slot_op(r->data) : 0;
	record->msg = r->msg;
	record->size = r->size;
	record->posted = now;
	record->modelled = record->returned = 0;
	ledger_end(record, r->base.record);
	if (!is_sender(c) && ddlemu_has_slots)
		ddlemu_slot_receives(r->data, r->base.record);
	calls->posted = &r->base;
	calls->outstanding++;
	calls->gap = 0;
}

static inline void note_post(struct ddlemu_conn *c, struct ddlemu_conn_request *r, int64_t now)
{
	if (has_ledger(c))
		write_post(c, r, now);
}

// write_visible notes when the bytes of a receive were visible.
LEDGER static void write_visible(struct ddlemu_conn_request *r, int64_t visible) { r->visible = visible; }

static inline void note_visible(const struct ddlemu_conn *c, struct ddlemu_conn_request *r, int64_t visible)
{
	if (has_ledger(c))
		write_visible(r, visible);
}

// write_return completes the record of a request, which test returns now.
LEDGER static void write_return(struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now)
{
	ddlemu_calls()->outstanding--;
	if (!ledger_has(&c->ledger, r->base.record))
		return;
	struct ddlemu_record *record = ledger_at(&c->ledger, r->base.record);
	const struct ddlemu_times *t = times_at(c->f, r->msg);
	if (!is_sender(c))
		record->late = bounded(r->visible - max64(read_time(&t->due), receive_posted(c->f, r->msg)));
	record->size = r->size;
	record->modelled = read_time(is_sender(c) ? &t->complete : &t->due);
	__atomic_store_n(&record->returned, now, __ATOMIC_RELEASE);
}

static inline void note_return(struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now)
{
	if (has_ledger(c))
		write_return(c, r, now);
}

// write_failure notes in the record of a request, which is not complete, when test first reported a failure.
LEDGER static void write_failure(const struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now)
{
	struct ddlemu_record *record = ledger_at(&c->ledger, r->base.record);
	if (ledger_has(&c->ledger, r->base.record) && record->modelled == 0)
		record->modelled = now;
}

// report returns the result of a test of a request, which is not complete.
static inline int report(const struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now, int result)
{
	if (result != DDLEMU_SUCCESS && has_ledger(c))
		write_failure(c, r, now);
	return result;
}

// --- the sender's memory

// place_of is the entry of message i in ddlemu_places. On a real clock it is 0.
static uint64_t place_of(const struct ddlemu_conn *c, uint64_t i)
{
	return c->places == NULL ? 0 : load64(&c->places[i % DDLEMU_MAX_MESSAGES]);
}

// set_place says where the bytes of message i are, which is not posted yet.
static void set_place(struct ddlemu_conn *c, uint64_t i, const char *data, uint64_t size)
{
	if (c->places == NULL)
		return;
	uint64_t offset = (uint64_t)data - (uint64_t)c->memory.base;
	bool mapped = offset < c->memory.size && size <= c->memory.size - offset;
	store64(&c->places[i % DDLEMU_MAX_MESSAGES], mapped ? 1 + offset : 0);
}

// is_place_valid says whether a place that the sender wrote, with size bytes, is in its memory.
static bool is_place_valid(const struct ddlemu_conn *c, uint64_t place, uint64_t size)
{
	return place - 1 < c->memory.size && size <= c->memory.size - (place - 1);
}

// --- the sender

// ring_space is how many bytes are free in the ring. Bytes before `written` that are not in the ring count as used
// until they are consumed, so they may be more than the ring has.
static uint64_t ring_space(const struct ddlemu_conn *c, uint64_t written)
{
	uint64_t used = written - c->consumed;
	return used < c->ring_size ? c->ring_size - used : 0;
}

// copy_in copies posted messages into the ring, as far as there is space and the budget reaches.
static void copy_in(struct ddlemu_conn *c, int64_t now)
{
	struct ddlemu_flow *f = c->f;
	uint64_t budget = copy_budget(c, now), written = read64(&f->written);
	while (budget > 0 && c->copied_msgs < read64(&f->posted)) {
		struct ddlemu_conn_request *r = &c->req[c->copied_msgs % DDLEMU_MAX_REQUESTS];
		if (place_of(c, c->copied_msgs) != 0) {
			written += r->size;
			c->copied_msgs++;
			continue;
		}
		uint64_t at = written % c->ring_size;
		uint64_t n = umin64(umin64(r->size - c->copied_off, budget), c->ring_size - at);
		if (ring_space(c, written) < n)
			c->consumed = load64(&f->consumed);
		n = umin64(n, ring_space(c, written));
		if (n > 0)
			stream_copy(c->ring + at, r->data + c->copied_off, n);
		written += n;
		budget -= n;
		c->copied_off += n;
		if (c->copied_off < r->size) {
			if (n == 0 && !must_look_again(c))
				break;
			continue;
		}
		c->copied_msgs++;
		c->copied_off = 0;
		stop_waiting(c);
	}
	if (written == read64(&f->written))
		return;
	store64(&f->written, written);
	tell_waiting(c);
}

static int sender_isend(struct ddlemu_comm *comm, const void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_conn *c = (struct ddlemu_conn *)comm;
	struct ddlemu_flow *f = c->f;
	*request = NULL;
	int64_t now = time_of(c);
	fault_stall(now);
	int bad = failure(c, death(c), is_set(&f->receiver_closed));
	if (bad)
		return bad;
	if (fault_lose(size, request))
		return DDLEMU_SUCCESS;
	uint64_t i = read64(&f->posted);
	struct ddlemu_conn_request *r = NULL;
	do {
		if (i - c->reusable >= DDLEMU_MAX_MESSAGES)
			c->reusable = umin64(umin64(read64(&f->sends_done), load64(&f->receives_done)),
				load64(&f->published.oldest_msg));
	} while (i - c->reusable >= DDLEMU_MAX_MESSAGES && must_look_again(c));
	if (i - c->reusable < DDLEMU_MAX_MESSAGES)
		r = new_request(c, i, (char *)data, size);
	if (r == NULL) {
		if (i - c->reusable >= DDLEMU_MAX_MESSAGES && c->clock == NULL)
			advance_now(c, now); // the model may read receives, and then need fewer messages
		else
			advance(c, now);
		copy_in(c, now);
		return DDLEMU_SUCCESS;
	}
	set_place(c, i, data, size);
	flow_post(f, size, now);
	note_post(c, r, now);
	copy_in(c, now);
	after_post(c, now);
	*request = &r->base;
	return DDLEMU_SUCCESS;
}

// is_read says whether NCCL may use the memory of message i again, which is complete: the receiver does not copy out of
// it, or has done so, or never will.
static bool is_read(struct ddlemu_conn *c, uint64_t i)
{
	struct ddlemu_flow *f = c->f;
	if (place_of(c, i) == 0)
		return true;
	const uint64_t end = send_end(f, i);
	while (load64(&f->consumed) < end && !is_set(&f->receiver_closed))
		if (!must_look_again(c))
			return false;
	stop_waiting(c);
	return true;
}

static int sender_test(struct ddlemu_request *request, int *done, size_t *size)
{
	struct ddlemu_conn_request *r = (struct ddlemu_conn_request *)request;
	struct ddlemu_conn *c = (struct ddlemu_conn *)request->comm;
	struct ddlemu_flow *f = c->f;
	*done = 0;
	int64_t now = time_of(c);
	fault_stall(now);
	note_call(c, now);
	copy_in(c, now);
	advance(c, now);
	uint32_t error = __atomic_load_n(&f->receive_error, __ATOMIC_ACQUIRE);
	if (error)
		return fail_too_long(r->size, error - 1);
	bool sent = load64(&f->published.complete_count) > r->msg && now >= read_time(&times_at(f, r->msg)->complete);
	bool copied = c->copied_msgs > r->msg && (!sent || is_read(c, r->msg));
	// The receiver reports a message that is too long when it looks, which may be later than this.
	if (sent && load64(&f->receives_posted) > r->msg) {
		const uint64_t capacity = receive_capacity(f, r->msg);
		if (r->size > capacity)
			return fail_too_long(r->size, capacity);
	}
	if (sent && c->copied_msgs <= r->msg && !r->counted_held &&
		read64(&f->written) - load64(&f->consumed) >= c->ring_size) {
		r->counted_held = 1;
		add64(&c->stats->held_sends, 1);
	}
	if (!sent || !copied) {
		// A receiver that has closed consumes no more bytes and posts no more receives. But if it has posted
		// this one and the bytes are in the ring, the model completes the send, also after its process has
		// ended. `dead` is loaded first: whoever closes does so before it ends.
		enum ddlemu_death dead = death(c);
		bool closed = is_set(&f->receiver_closed);
		bool completes = closed && copied && load64(&f->receives_posted) > r->msg;
		if (completes && dead != DDLEMU_FABRIC_DOWN)
			dead = DDLEMU_ALIVE;
		return report(c, r, now, failure(c, dead, closed && !completes));
	}
	note_return(c, r, now);
	return complete(r, &f->sends_done, done, size);
}

// to_ring puts the bytes of a send, which are not in the ring, there. It says no if the ring is too small for all that
// the receiver has not consumed.
static bool to_ring(struct ddlemu_conn *c, const struct ddlemu_conn_request *r)
{
	struct ddlemu_flow *f = c->f;
	const uint64_t consumed = load64(&f->consumed);
	if (load64(&f->written) - consumed > c->ring_size)
		return false;
	const uint64_t begin = send_end(f, r->msg) - r->size;
	for (uint64_t off = consumed > begin ? consumed - begin : 0, n; off < r->size; off += n) {
		uint64_t in = (begin + off) % c->ring_size;
		n = umin64(r->size - off, c->ring_size - in);
		memcpy(c->ring + in, r->data + off, n);
	}
	return true;
}

// After this the receiver copies nothing out of this range of memory: NCCL uses it for something else. NCCL does so
// while messages from it are under way only when it aborts. What does not fit into the ring is lost then.
static void sender_withdraw(struct ddlemu_comm *comm, const void *data, size_t size)
{
	struct ddlemu_conn *c = (struct ddlemu_conn *)comm;
	for (int i = 0; c->places != NULL && i < DDLEMU_MAX_REQUESTS; i++) {
		const struct ddlemu_conn_request *r = &c->req[i];
		if (!r->busy || place_of(c, r->msg) == 0 || (uint64_t)r->data - (uint64_t)data >= size)
			continue;
		store64(&c->places[r->msg % DDLEMU_MAX_MESSAGES], to_ring(c, r) ? 0 : DDLEMU_LOST);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// --- the receiver

static int receiver_irecv(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_conn *c = (struct ddlemu_conn *)comm;
	struct ddlemu_flow *f = c->f;
	*request = NULL;
	int64_t now = time_of(c);
	uint64_t i = read64(&f->receives_posted);
	struct ddlemu_conn_request *r = NULL;
	do {
		if (i - c->reusable >= DDLEMU_MAX_MESSAGES)
			c->reusable = umin64(read64(&f->receives_done), load64(&f->published.oldest_msg));
	} while (i - c->reusable >= DDLEMU_MAX_MESSAGES && must_look_again(c));
	if (i - c->reusable < DDLEMU_MAX_MESSAGES)
		r = new_request(c, i, data, size);
	if (r != NULL) {
		flow_receive(f, size, now);
		note_post(c, r, now);
		*request = &r->base;
	} else if (i - c->reusable >= DDLEMU_MAX_MESSAGES) {
		enum ddlemu_death dead = death(c);
		if (is_lock_lost(c, dead))
			return failure(c, dead, false); // no entry will ever be free
		if (c->clock == NULL)
			advance_now(c, now); // the model may read receives, and then need fewer messages
		return DDLEMU_SUCCESS;
	}
	after_post(c, now);
	return DDLEMU_SUCCESS;
}

// count_carried counts a message at the links between switches of its path: those behind the sender's port and the link
// of the pair, before the receiver's port. stats are those of hop 0.
static void count_carried(struct ddlemu_link_stats *stats, const struct ddlemu_path *path, uint64_t size)
{
	for (uint32_t i = 2; i + 1 < path->n; i++) {
		__atomic_fetch_add(&stats[path->hop[i]].carried_messages, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&stats[path->hop[i]].carried_bytes, size, __ATOMIC_RELAXED);
	}
}

// copy_out copies the bytes that have arrived out of the ring, as far as the budget reaches, and counts the messages
// that are received.
static int copy_out(struct ddlemu_conn *c, int64_t now)
{
	struct ddlemu_flow *f = c->f;
	uint64_t budget = copy_budget(c, now);
	// Only a message that was posted can have arrived or be due, so `posted`, on the sender's line, is not read.
	while (c->copied_msgs < read64(&f->receives_posted) &&
		(load64(&f->published.arrived) > read64(&f->consumed) ||
			load64(&f->published.due_count) > c->copied_msgs || fault_looks(f, c->copied_msgs))) {
		uint64_t i = c->copied_msgs;
		struct ddlemu_conn_request *r = &c->req[i % DDLEMU_MAX_REQUESTS];
		const struct ddlemu_send x = read_send(f, i); // a copy: the peer cannot change it after the check
		if (x.size > r->size) {
			__atomic_store_n(
				&f->receive_error, (uint32_t)umin64(r->size, UINT32_MAX - 1) + 1, __ATOMIC_RELEASE);
			return fail_too_long(x.size, r->size);
		}
		const uint64_t place = place_of(c, i);
		if (place == DDLEMU_LOST)
			return failure(c, death(c), true);
		if (place != 0 && !is_place_valid(c, place, x.size))
			return FAIL(DDLEMU_REMOTE_ERROR, CORRUPT_TEXT);
		uint64_t begin = x.end - x.size, at = begin + c->copied_off, copied = 0;
		uint64_t arrived = umin64(fault_arrived(f, i, now), x.end), written = load64(&f->written);
		while (written < arrived && must_look_again(c))
			written = load64(&f->written);
		uint64_t readable = umin64(arrived, written);
		uint64_t ready = readable > begin ? readable - begin : 0;
		if (ready < x.size)
			ready &= ~(uint64_t)(DDLEMU_LINE - 1); // whole lines only: NCCL may poll the bytes
		while (c->copied_off < ready && budget > 0) {
			uint64_t in = at % c->ring_size;
			uint64_t n = umin64(ready - c->copied_off, budget);
			if (place == 0)
				n = umin64(n, c->ring_size - in);
			const char *from = place == 0 ? c->ring + in : c->memory.base + (place - 1) + c->copied_off;
			ordered_copy(r->data + c->copied_off, from, n);
			c->copied_off += n;
			at += n;
			copied += n;
			budget -= n;
		}
		// The sender may have withdrawn the memory meanwhile. Then the copied bytes may be others. It does so
		// once, so this loop ends.
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		const uint64_t place_now = place_of(c, i);
		if (place_now != place) {
			if (place_now != 0 && place_now != DDLEMU_LOST)
				return FAIL(DDLEMU_REMOTE_ERROR, CORRUPT_TEXT);
			c->copied_off -= copied;
			continue;
		}
		if (copied > 0) {
			store64(&f->consumed, at);
			tell_waiting(c);
			raise_acts(c);
		}
		if (c->copied_off < x.size || load64(&f->published.due_count) <= i ||
			now < read_time(&times_at(f, i)->due) + fault_delay(i))
			return DDLEMU_SUCCESS;
		fault_flip(i, r->data, x.size);
		const struct ddlemu_times *t = times_at(f, i);
		const int64_t visible = x.size > 0 ? time_of(c) : now;
		count_delivery(c->stats,
			&(struct ddlemu_delivery){ .size = x.size,
				.posted = x.posted,
				.receive_posted = receive_posted(f, i),
				.due = read_time(&t->due),
				.visible = visible,
				.distortion = read_time(&t->distortion) },
			c->scale);
		if (c->all_stats != NULL)
			count_carried(c->all_stats, &c->engine.path, x.size);
		r->size = x.size;
		note_visible(c, r, visible);
		c->copied_msgs++;
		c->copied_off = 0;
		stop_waiting(c);
	}
	return DDLEMU_SUCCESS;
}

// will_arrive says whether message i arrives although its sender is gone: all of it is in the ring, or in the memory of
// a sender that died and so has not used it for something else, and this end can make the model's steps alone. It can
// unless a process that died has the lock. A process that lives, and another thread of this process, release it.
static bool will_arrive(struct ddlemu_conn *c, uint64_t i, enum ddlemu_death dead)
{
	struct ddlemu_flow *f = c->f;
	if (is_lock_lost(c, dead) || __atomic_load_n(&f->broken, __ATOMIC_ACQUIRE))
		return false;
	return load64(&f->posted) > i && load64(&f->written) >= send_end(f, i);
}

static int receiver_test(struct ddlemu_request *request, int *done, size_t *size)
{
	struct ddlemu_conn_request *r = (struct ddlemu_conn_request *)request;
	struct ddlemu_conn *c = (struct ddlemu_conn *)request->comm;
	struct ddlemu_flow *f = c->f;
	*done = 0;
	int64_t now = time_of(c);
	fault_stall(now);
	note_call(c, now);
	if (c->copied_msgs <= r->msg) {
		advance(c, now);
		int bad = copy_out(c, now);
		if (bad)
			return bad;
	}
	if (c->copied_msgs <= r->msg) {
		// Both are loaded here, once, before will_arrive reads the sender's counts: the counts of a sender that
		// is gone are final. If failure() loaded them again, they could say that the sender is gone although
		// will_arrive has read counts from before its end.
		enum ddlemu_death dead = death(c);
		bool closed = is_set(&f->sender_closed);
		if ((dead || closed) && will_arrive(c, r->msg, dead))
			return DDLEMU_SUCCESS;
		return report(c, r, now, failure(c, dead, closed));
	}
	note_return(c, r, now);
	return complete(r, &f->receives_done, done, size);
}

const struct ddlemu_ops ddlemu_shm_sender = {
	.isend = sender_isend, .irecv = ddlemu_no_irecv, .test = sender_test, .withdraw = sender_withdraw
};
const struct ddlemu_ops ddlemu_shm_receiver = {
	.isend = ddlemu_no_isend, .irecv = receiver_irecv, .test = receiver_test
};

// --- making and ending connections

static void lock_list(void)
{
	while (!try_lock_list())
		sched_yield();
}

// link_conn puts a new connection into the list. It says no if there is no memory.
static bool link_conn(struct ddlemu_conn *c)
{
	lock_list();
	struct late_step *late = realloc(list.late, (list.count + 1) * sizeof *late);
	if (late != NULL) {
		list.late = late;
		list.count++;
		c->number = list.made++;
		c->next = list.first;
		list.first = c;
	}
	unlock_list();
	return late != NULL;
}

struct ddlemu_engine ddlemu_engine_of(void *state)
{
	struct ddlemu_header *h = state;
	return (struct ddlemu_engine){
		.transport = &h->transport,
		.seed = h->seed,
		.hops = (void *)((char *)state + h->hops_off),
		.blocks = (void *)((char *)state + h->blocks_off),
		.tables = (void *)((char *)state + h->tables_off),
	};
}

struct ddlemu_conn *ddlemu_conn_new(const struct ddlemu_ops *ops, unsigned long id, const struct ddlemu_region *region,
	void *state, uint64_t link_stats_off, struct ddlemu_clock_view *clock, struct ddlemu_clock_flow *clock_flow,
	struct ddlemu_gpu_memory memory)
{
	struct ddlemu_conn *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	fault_leak();
	struct ddlemu_header *h = state;
	struct ddlemu_flow *f = clock == NULL ? region->memory : &clock_flow->flow;
	c->base = (struct ddlemu_comm){ .ops = ops, .id = id };
	c->f = f;
	c->clock = clock;
	c->clock_flow = clock_flow;
	c->ring = (char *)region->memory + region->ring_off;
	if (clock != NULL)
		c->places = (uint64_t *)(c->ring - sizeof(ddlemu_places));
	c->memory = memory;
	c->ring_size = region->ring_size;
	c->scale = h->time_scale;
	c->engine = ddlemu_engine_of(state);
	c->engine.flow = f;
	c->engine.path = region->path;
#ifdef DDLEMU_FAULTS
	c->engine.rate_fault = fault_rate;
#endif
	struct ddlemu_link_stats *stats = (void *)((char *)state + link_stats_off);
	c->stats = stats + c->engine.path.link;
	if (h->flow_paths)
		c->all_stats = stats;
	if (!link_conn(c)) {
		free(c);
		return NULL;
	}
	return c;
}

// remove_active removes a connection from the lists of active ones. No call makes it active again.
static void remove_active(struct ddlemu_conn *c)
{
	take_called();
	__atomic_store_n(&c->active, 1, __ATOMIC_RELAXED);
	for (struct ddlemu_conn **p = &list.active; *p != NULL; p = &(*p)->next_active)
		if (*p == c) {
			*p = c->next_active;
			return;
		}
}

void ddlemu_conn_unlink(struct ddlemu_conn *c)
{
	lock_list();
	for (struct ddlemu_conn **p = &list.first, *before = NULL; *p != NULL; before = *p, p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			list.count--;
			if (list.looked == c)
				list.looked = before;
			break;
		}
	remove_active(c);
	unlock_list();
}

void ddlemu_conn_free(struct ddlemu_conn *c)
{
	ddlemu_conn_unlink(c);
	free(c);
}

// close_flow says that this end is gone. With a virtual clock it wakes the other end, and has the clock free the flow
// when both are gone.
static void close_flow(struct ddlemu_conn *c, uint32_t *closed)
{
	__atomic_store_n(closed, 1, __ATOMIC_SEQ_CST);
	if (c->clock == NULL)
		return;
	ddlemu_flow_posted(c->clock, c->clock_flow);
	ddlemu_node_raise(
		c->clock, is_sender(c) ? c->clock_flow->receiver_node : c->clock_flow->sender_node, DDLEMU_ACTS);
}

void ddlemu_conn_close(struct ddlemu_conn *c)
{
	struct ddlemu_flow *f = c->f;
	if (is_sender(c)) {
		sender_withdraw(&c->base, NULL, SIZE_MAX);
		close_flow(c, &f->sender_closed);
		return;
	}
	uint64_t posted = load64(&f->posted);
	if (posted > c->copied_msgs)
		add64(&c->stats->aborted, posted - c->copied_msgs);
	add64(&c->stats->stalls, f->stalls);
	close_flow(c, &f->receiver_closed); // the last access: the flow may get another use
}
