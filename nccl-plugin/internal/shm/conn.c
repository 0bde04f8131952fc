// SPDX-License-Identifier: Apache-2.0
//
// The path of a message, in the order it takes it: isend posts it and begins to
// copy it into the ring; either end's calls advance the link model; the receiver
// copies what is due out of the ring, and test reports what is complete. No call
// waits, locks, allocates or enters the kernel (clock_gettime is in the vDSO).

#include "conn.h"

#include <sched.h>
#include <stdlib.h>

#include "../transport/account.h"
#include "../transport/call.h"
#include "../transport/copy.h"
#include "fault.h"

// --- advancing the model

// Every connection of this process. Under the lock: making and ending connections,
// and catching up. Polls that are in time do not touch it.
static struct {
	uint32_t lock;
	struct ddlemu_conn *first;
} all;

static bool all_try_lock(void)
{
	uint32_t unlocked = 0;
	return __atomic_compare_exchange_n(&all.lock, &unlocked, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void all_unlock(void) { __atomic_store_n(&all.lock, 0, __ATOMIC_RELEASE); }

// unseen_receive says whether the model has to learn of a receive now: only while it
// knows of a message whose times it cannot tell yet. Otherwise it learns of it with
// the next message, in the sender's call, and its lines stay with the sender's core.
static bool unseen_receive(struct ddlemu_flow *f, uint64_t seen)
{
	return load64(&f->receives_posted) > seen && load64(&f->published.posts_seen) > load64(&f->published.due_count);
}

// due_at is the time of the model's next step on this connection: what it said
// last, or the time of a post that it has not seen.
static int64_t due_at(struct ddlemu_flow *f)
{
	int64_t at = flow_next(f);
	uint64_t posted = load64(&f->published.posts_seen), recvd = load64(&f->published.receives_seen);
	if (load64(&f->posted) > posted)
		at = min64(at, send_at(f, posted)->posted);
	if (unseen_receive(f, recvd))
		at = min64(at, receive_at(f, recvd)->posted);
	return at;
}

// Who posts something takes it into the model in the same call. The other end leaves
// it LEAVE ns for that, and looks for it every LOOK ns: otherwise each message would
// send the lines of the one end and of the model to and fro between the cores.
#define LEAVE 400
#define LOOK 2000

static bool time_to_look(struct ddlemu_conn *c, int64_t now)
{
	if (now - c->looked < LOOK)
		return false;
	c->looked = now;
	return true;
}

// anything says whether the model has something to do by now.
static bool anything(struct ddlemu_conn *c, int64_t now)
{
	struct ddlemu_flow *f = c->f;
	bool sender = c->base.ops == &ddlemu_shm_sender, look = time_to_look(c, now);
	if (flow_next(f) <= now)
		return true;
	if (sender || look) {
		uint64_t posted = load64(&f->published.posts_seen);
		if (load64(&f->posted) > posted && send_at(f, posted)->posted + (sender ? 0 : LEAVE) <= now)
			return true;
	}
	if (!sender || look) {
		uint64_t recvd = load64(&f->published.receives_seen);
		if (unseen_receive(f, recvd) && receive_at(f, recvd)->posted + (sender ? LEAVE : 0) <= now)
			return true;
	}
	return false;
}

// step takes the steps of one connection up to time t, unless the other end is at
// it already.
static bool step(struct ddlemu_conn *c, int64_t t)
{
	struct ddlemu_flow *f = c->f;
	uint32_t unlocked = 0, me = c->base.ops == &ddlemu_shm_sender ? DDLEMU_SENDER : DDLEMU_RECEIVER;
	if (!__atomic_compare_exchange_n(&f->lock, &unlocked, me, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	flow_advance(&c->engine, t);
	__atomic_store_n(&f->lock, 0, __ATOMIC_RELEASE);
	return true;
}

// A poll this late (ns) may have let other flows wait too: half of the shortest
// segment that a link of 400 Gb/s has.
#define CATCH_UP 600
#define CATCH_UP_STEPS 256 // so that one call stays short

// catch_up takes the steps of all connections of this process in the order of
// their times, as if each had been polled in time. Otherwise the first one polled
// would take everything that it missed before the others get a turn.
static void catch_up(int64_t now)
{
	if (!all_try_lock())
		return;
	for (int i = 0; i < CATCH_UP_STEPS; i++) {
		struct ddlemu_conn *first = NULL;
		int64_t earliest = now;
		for (struct ddlemu_conn *c = all.first; c != NULL; c = c->next) {
			int64_t at = due_at(c->f);
			if (at < earliest) {
				earliest = at;
				first = c;
			}
		}
		if (first == NULL || !step(first, earliest))
			break;
	}
	all_unlock();
}

// run takes the steps up to now, of other connections too if this comes late.
static void run(struct ddlemu_conn *c, int64_t now)
{
	if (due_at(c->f) < now - CATCH_UP)
		catch_up(now);
	if (due_at(c->f) > now - CATCH_UP)
		step(c, now);
}

// advance runs the model when there is something to do.
static void advance(struct ddlemu_conn *c, int64_t now)
{
	if (anything(c, now))
		run(c, now);
}

// why_not says why a connection cannot go on, going by what was seen of the peer.
static int why_not(struct ddlemu_conn *c, int dead, int peer_closed)
{
	uint32_t broken = __atomic_load_n(&c->f->broken, __ATOMIC_ACQUIRE);
	if (broken == DDLEMU_LINK_DOWN)
		return FAIL(DDLEMU_REMOTE_ERROR, "the emulated link was down for longer than the transport allows");
	if (broken)
		return FAIL(DDLEMU_REMOTE_ERROR, "the peer has overwritten its part of the connection with nonsense");
	if (dead == DDLEMU_FABRIC_DOWN)
		return FAIL(DDLEMU_REMOTE_ERROR, "the fabric was taken down");
	if (dead)
		return FAIL(DDLEMU_REMOTE_ERROR, "the peer's process died");
	if (peer_closed)
		return FAIL(DDLEMU_REMOTE_ERROR, "the peer closed the connection");
	return DDLEMU_SUCCESS;
}

static int is_dead(struct ddlemu_conn *c) { return __atomic_load_n(&c->base.dead, __ATOMIC_ACQUIRE); }

static int check(struct ddlemu_conn *c, int peer_closed) { return why_not(c, is_dead(c), peer_closed); }

// stranded says whether the sender died while it advanced the model: nobody can go on.
static bool stranded(struct ddlemu_conn *c, int dead)
{
	return dead && __atomic_load_n(&c->f->lock, __ATOMIC_ACQUIRE) == DDLEMU_SENDER;
}

static int too_long(uint64_t size, uint64_t room)
{
	return FAIL(DDLEMU_INVALID_USAGE,
		"message of %llu bytes is longer than the receive of %llu bytes posted for it",
		(unsigned long long)size, (unsigned long long)room);
}

static struct ddlemu_conn_request *take(struct ddlemu_conn *c, uint64_t msg, char *data, uint64_t size)
{
	struct ddlemu_conn_request *r = &c->req[msg % DDLEMU_MAX_REQUESTS];
	if (r->busy)
		return NULL;
	*r = (struct ddlemu_conn_request){ .base.comm = &c->base, .msg = msg, .data = data, .size = size, .busy = 1 };
	return r;
}

// call_budget is how many bytes this call may copy.
static uint64_t call_budget(struct ddlemu_conn *c, int64_t now)
{
	int64_t away = now - c->last_call;
	c->last_call = now;
	return away > DDLEMU_LONG ? DDLEMU_COPY_AFTER_LONG : DDLEMU_COPY_PER_CALL;
}

// --- the sender

// copy_in moves posted bytes into the ring, at most one call's worth.
static void copy_in(struct ddlemu_conn *c, int64_t now)
{
	struct ddlemu_flow *f = c->f;
	uint64_t budget = call_budget(c, now), written = f->written;
	while (budget > 0 && c->copied_msgs < f->posted) {
		struct ddlemu_conn_request *r = &c->req[c->copied_msgs % DDLEMU_MAX_REQUESTS];
		uint64_t at = written % c->ring_size;
		uint64_t n = umin64(umin64(r->size - c->copied_off, budget), c->ring_size - at);
		if (c->ring_size - (written - c->consumed) < n)
			c->consumed = load64(&f->consumed);
		n = umin64(n, c->ring_size - (written - c->consumed));
		if (n > 0)
			stream_copy(c->ring + at, r->data + c->copied_off, n);
		written += n;
		budget -= n;
		c->copied_off += n;
		if (c->copied_off < r->size) {
			if (n == 0)
				break;
			continue;
		}
		c->copied_msgs++;
		c->copied_off = 0;
	}
	if (written != f->written)
		store64(&f->written, written);
}

static int sender_isend(struct ddlemu_comm *comm, const void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_conn *c = (struct ddlemu_conn *)comm;
	struct ddlemu_flow *f = c->f;
	*request = NULL;
	int64_t now = clock_now();
	fault_stall(now);
	int bad = check(c, __atomic_load_n(&f->receiver_closed, __ATOMIC_ACQUIRE));
	if (bad)
		return bad;
	if (fault_lose(size, request))
		return DDLEMU_SUCCESS;
	uint64_t i = f->posted;
	struct ddlemu_conn_request *r = NULL;
	if (i - c->floor >= DDLEMU_MAX_MESSAGES)
		c->floor = umin64(umin64(f->sends_done, load64(&f->receives_done)), load64(&f->published.oldest_msg));
	if (i - c->floor < DDLEMU_MAX_MESSAGES)
		r = take(c, i, (char *)data, size);
	if (r == NULL) {
		if (i - c->floor >= DDLEMU_MAX_MESSAGES)
			run(c, now); // what it has not seen may let it forget messages
		else
			advance(c, now);
		copy_in(c, now);
		return DDLEMU_SUCCESS;
	}
	flow_post(f, size, now);
	copy_in(c, now);
	advance(c, now);
	*request = &r->base;
	return DDLEMU_SUCCESS;
}

static int sender_test(struct ddlemu_request *request, int *done, size_t *size)
{
	struct ddlemu_conn_request *r = (struct ddlemu_conn_request *)request;
	struct ddlemu_conn *c = (struct ddlemu_conn *)request->comm;
	struct ddlemu_flow *f = c->f;
	*done = 0;
	int64_t now = clock_now();
	fault_stall(now);
	copy_in(c, now);
	advance(c, now);
	uint32_t rx_error = __atomic_load_n(&f->receive_error, __ATOMIC_ACQUIRE);
	if (rx_error)
		return too_long(r->size, rx_error - 1);
	bool complete = load64(&f->published.complete_count) > r->msg && now >= times_at(f, r->msg)->complete;
	// The receiver says so only when it looks, which may be after the time of sent.
	if (complete && load64(&f->receives_posted) > r->msg && r->size > receive_at(f, r->msg)->capacity)
		return too_long(r->size, receive_at(f, r->msg)->capacity);
	if (complete && c->copied_msgs <= r->msg && !r->held && f->written - load64(&f->consumed) == c->ring_size) {
		r->held = 1;
		add64(&c->cell->held_sends, 1);
	}
	if (!complete || c->copied_msgs <= r->msg) {
		// A receiver that is gone makes no more room, and will post no more receives.
		int gone = __atomic_load_n(&f->receiver_closed, __ATOMIC_ACQUIRE);
		return check(c, gone && (c->copied_msgs <= r->msg || load64(&f->receives_posted) <= r->msg));
	}
	if (size != NULL)
		*size = r->size;
	r->busy = 0;
	f->sends_done++;
	*done = 1;
	return DDLEMU_SUCCESS;
}

// --- the receiver

static int receiver_irecv(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_conn *c = (struct ddlemu_conn *)comm;
	struct ddlemu_flow *f = c->f;
	*request = NULL;
	int64_t now = clock_now();
	uint64_t i = f->receives_posted;
	struct ddlemu_conn_request *r = NULL;
	if (i - c->floor >= DDLEMU_MAX_MESSAGES)
		c->floor = umin64(f->receives_done, load64(&f->published.oldest_msg));
	if (i - c->floor < DDLEMU_MAX_MESSAGES)
		r = take(c, i, data, size);
	if (r != NULL) {
		flow_receive(f, size, now);
		*request = &r->base;
	} else if (i - c->floor >= DDLEMU_MAX_MESSAGES) {
		if (stranded(c, is_dead(c)))
			return check(c, 0); // there will never be room
		run(c, now); // what it has not seen may let it forget messages
		return DDLEMU_SUCCESS;
	}
	advance(c, now);
	return DDLEMU_SUCCESS;
}

static int bucket(int64_t late) // state.Bucket
{
	if (late < 8)
		return late < 0 ? 0 : (int)late;
	int e = 63 - __builtin_clzll((uint64_t)late);
	int b = (e - 1) * 4 + (int)(late >> (e - 2) & 3);
	return b < DDLEMU_LATE_BUCKETS ? b : DDLEMU_LATE_BUCKETS - 1;
}

// count_busy adds the part of an interval that no earlier message has covered.
static void count_busy(int64_t *busy, int64_t *until, int64_t from, int64_t to)
{
	from = max64(from, raise_to(until, to));
	if (to > from)
		__atomic_fetch_add(busy, to - from, __ATOMIC_RELAXED);
}

// account judges a message that has just been made visible.
static void account(struct ddlemu_conn *c, uint64_t i, int64_t visible)
{
	struct ddlemu_flow *f = c->f;
	const struct ddlemu_send *x = send_at(f, i);
	const struct ddlemu_times *o = times_at(f, i);
	int64_t due = max64(o->due, receive_at(f, i)->posted), time = o->due - x->posted;
	int64_t late = max64(visible - due, 0) + o->distortion;
	struct ddlemu_class *k = size_class_of(c->cell, x->size);
	add64(&k->messages, 1);
	add64(&k->bytes, x->size);
	if (late > max64(DDLEMU_P50_FLOOR * c->scale, time / DDLEMU_P50_PART))
		add64(&k->over_p50, 1);
	if (late > max64(DDLEMU_P99_FLOOR * c->scale, time / DDLEMU_P99_PART))
		add64(&k->over_p99, 1);
	__atomic_fetch_add(&k->sum_late, late, __ATOMIC_RELAXED);
	__atomic_fetch_add(&k->sum_time, time, __ATOMIC_RELAXED);
	raise_to(&k->max_late, late);
	__atomic_fetch_add(&k->late[bucket(late)], 1, __ATOMIC_RELAXED);

	// Backlogged: a posted message is unfinished in the model, and on the clock
	// until it is visible.
	count_busy(&c->cell->model_busy, &c->cell->model_until, x->posted, due);
	count_busy(&c->cell->wall_busy, &c->cell->wall_until, x->posted, due + late);
	if (o->distortion != 0)
		__atomic_fetch_add(&c->cell->distortion, o->distortion, __ATOMIC_RELAXED);
	count_span(c->cell, x->posted, visible);
}

// copy_out moves what is due out of the ring, at most one call's worth, and
// accounts for the messages that are complete.
static int copy_out(struct ddlemu_conn *c, int64_t now)
{
	struct ddlemu_flow *f = c->f;
	uint64_t budget = call_budget(c, now);
	// Bytes that have arrived, or a message that is due, were posted: the sender's line need not be looked at.
	while (c->copied_msgs < f->receives_posted &&
		(load64(&f->published.arrived) > f->consumed || load64(&f->published.due_count) > c->copied_msgs ||
			fault_looks(f, c->copied_msgs))) {
		uint64_t i = c->copied_msgs;
		struct ddlemu_conn_request *r = &c->req[i % DDLEMU_MAX_REQUESTS];
		const struct ddlemu_send x = *send_at(f, i); // once: nothing the peer does later gets past the check
		if (x.size > r->size) {
			__atomic_store_n(
				&f->receive_error, (uint32_t)umin64(r->size, UINT32_MAX - 1) + 1, __ATOMIC_RELEASE);
			return too_long(x.size, r->size);
		}
		uint64_t begin = x.end - x.size, at = begin + c->copied_off;
		uint64_t visible = umin64(umin64(fault_arrived(f, i, now), load64(&f->written)), x.end);
		uint64_t ready = visible > begin ? visible - begin : 0;
		if (ready < x.size)
			ready &= ~(uint64_t)(DDLEMU_LINE - 1); // never part of a line
		while (c->copied_off < ready && budget > 0) {
			uint64_t in = at % c->ring_size;
			uint64_t n = umin64(umin64(ready - c->copied_off, c->ring_size - in), budget);
			ordered_copy(r->data + c->copied_off, c->ring + in, n);
			c->copied_off += n;
			at += n;
			budget -= n;
		}
		if (at != f->consumed)
			store64(&f->consumed, at);
		if (c->copied_off < x.size || load64(&f->published.due_count) <= i ||
			now < times_at(f, i)->due + fault_delay(i))
			return DDLEMU_SUCCESS;
		fault_flip(i, r->data, x.size);
		account(c, i, x.size > 0 ? clock_now() : now);
		r->size = x.size;
		c->copied_msgs++;
		c->copied_off = 0;
	}
	return DDLEMU_SUCCESS;
}

// still_comes says whether a message arrives although its sender is gone: it has
// been sent in full, and this end can take the model's steps alone. It can when no
// process that died has the lock; one that lives, and this one's other threads,
// give it back.
static bool still_comes(struct ddlemu_conn *c, uint64_t i, int dead)
{
	struct ddlemu_flow *f = c->f;
	if (stranded(c, dead) || __atomic_load_n(&f->broken, __ATOMIC_ACQUIRE))
		return false;
	return load64(&f->posted) > i && load64(&f->written) >= send_at(f, i)->end;
}

static int receiver_test(struct ddlemu_request *request, int *done, size_t *size)
{
	struct ddlemu_conn_request *r = (struct ddlemu_conn_request *)request;
	struct ddlemu_conn *c = (struct ddlemu_conn *)request->comm;
	struct ddlemu_flow *f = c->f;
	*done = 0;
	int64_t now = clock_now();
	fault_stall(now);
	if (c->copied_msgs <= r->msg) {
		advance(c, now);
		int bad = copy_out(c, now);
		if (bad)
			return bad;
	}
	if (c->copied_msgs <= r->msg) {
		// Each is looked at once, and what the sender did before it went only then.
		int dead = is_dead(c), closed = (int)__atomic_load_n(&f->sender_closed, __ATOMIC_ACQUIRE);
		if ((dead || closed) && still_comes(c, r->msg, dead))
			return DDLEMU_SUCCESS;
		return why_not(c, dead, closed);
	}
	if (size != NULL)
		*size = r->size;
	r->busy = 0;
	store64(&f->receives_done, f->receives_done + 1);
	*done = 1;
	return DDLEMU_SUCCESS;
}

const struct ddlemu_ops ddlemu_shm_sender = { .isend = sender_isend, .irecv = ddlemu_no_irecv, .test = sender_test };
const struct ddlemu_ops ddlemu_shm_receiver = {
	.isend = ddlemu_no_isend, .irecv = receiver_irecv, .test = receiver_test
};

// --- control

struct ddlemu_conn *ddlemu_conn_new(
	const struct ddlemu_ops *ops, unsigned long id, void *region, void *state, uint64_t cells_off)
{
	struct ddlemu_conn *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	fault_leak();
	struct ddlemu_header *h = state;
	struct ddlemu_flow *f = region;
	c->base = (struct ddlemu_comm){ .ops = ops, .id = id };
	c->f = f;
	c->ring = (char *)region + f->ring_off;
	c->ring_size = f->ring_size;
	c->scale = h->time_scale;
	c->engine = (struct ddlemu_engine){
		.flow = f,
		.path = f->path,
		.transport = &h->transport,
		.seed = h->seed,
		.hops = (void *)((char *)state + h->hops_off),
		.blocks = (void *)((char *)state + h->blocks_off),
		.tables = (void *)((char *)state + h->tables_off),
	};
#ifdef DDLEMU_FAULTS
	c->engine.rate_fault = fault_rate;
#endif
	c->cell = (struct ddlemu_cell *)((char *)state + cells_off) + c->engine.path.link;
	while (!all_try_lock())
		sched_yield();
	c->next = all.first;
	all.first = c;
	all_unlock();
	return c;
}

void ddlemu_conn_unlink(struct ddlemu_conn *c)
{
	while (!all_try_lock())
		sched_yield();
	for (struct ddlemu_conn **p = &all.first; *p != NULL; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	all_unlock();
}

void ddlemu_conn_free(struct ddlemu_conn *c)
{
	ddlemu_conn_unlink(c);
	free(c);
}

void ddlemu_conn_close(struct ddlemu_conn *c)
{
	struct ddlemu_flow *f = c->f;
	if (c->base.ops == &ddlemu_shm_sender) {
		__atomic_store_n(&f->sender_closed, 1, __ATOMIC_RELEASE);
		return;
	}
	__atomic_store_n(&f->receiver_closed, 1, __ATOMIC_RELEASE);
	uint64_t posted = load64(&f->posted);
	if (posted > c->copied_msgs)
		add64(&c->cell->aborted, posted - c->copied_msgs);
	add64(&c->cell->stalls, f->stalls);
}
