// SPDX-License-Identifier: Apache-2.0

#include "advance.h"

#include <sched.h>
#include <stdlib.h>

// --- the connections of this process

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

static void lock_list(void)
{
	while (!try_lock_list())
		sched_yield();
}

bool conn_link(struct ddlemu_conn *c)
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

// --- the steps of one connection

// is_receive_needed says whether the model, which has read so many posts, must read a receive that it has not read
// (number `seen`). It must while it knows a message whose times depend on receives. Otherwise it reads the receive with
// the next message, in the sender's call, and its cache lines stay with the sender's core.
static bool is_receive_needed(struct ddlemu_flow *f, uint64_t posts, uint64_t seen)
{
	return load64(&f->receives_posted) > seen && posts > load64(&f->published.due_count);
}

// next_step is the time of the model's next step on this connection: what the model published, or the time of a post
// that it has not read.
static int64_t next_step(struct ddlemu_flow *f)
{
	int64_t next = flow_next(f);
	uint64_t posts = load64(&f->published.posts_seen), receives = load64(&f->published.receives_seen);
	if (load64(&f->posted) > posts)
		next = min64(next, send_posted(f, posts));
	if (is_receive_needed(f, posts, receives))
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
	uint64_t posts = load64(&f->published.posts_seen);
	if (sender || check_peer) {
		if (load64(&f->posted) > posts && send_posted(f, posts) <= now - (sender ? 0 : PEER_DELAY))
			return true;
	}
	if (!sender || check_peer) {
		uint64_t receives = load64(&f->published.receives_seen);
		if (is_receive_needed(f, posts, receives) &&
			receive_posted(f, receives) <= now - (sender ? PEER_DELAY : 0))
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

// activate makes a connection active. Several threads may call it, each for connections of its own. Acquire: find_late
// has read next_active before it stores 0.
static inline void activate(struct ddlemu_conn *c)
{
	if (__atomic_load_n(&c->active, __ATOMIC_RELAXED) != 0 ||
		__atomic_exchange_n(&c->active, 1, __ATOMIC_ACQUIRE) != 0)
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

// find_late finds the active connections with a step before now. It removes connections that are not active any more.
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

// If the connection still has a step that is late, because another thread has the list or because of CATCH_UP_STEPS,
// the next call goes on: the connection must not advance before the others.
void conn_advance_now(struct ddlemu_conn *c, int64_t now)
{
	activate(c);
	if (next_step(c->f) < now - CATCH_UP)
		catch_up(now);
	if (next_step(c->f) >= now - CATCH_UP)
		advance_to(c, now);
}

void conn_advance(struct ddlemu_conn *c, int64_t now)
{
	if (c->clock != NULL)
		return;
	if (has_step(c, now))
		conn_advance_now(c, now);
	else if (flow_next(c->f) != DDLEMU_NEVER)
		activate(c);
}

void conn_posted(struct ddlemu_conn *c, int64_t now)
{
	if (c->clock != NULL) {
		ddlemu_flow_posted(c->clock, c->clock_flow);
		return;
	}
	activate(c);
	if (has_step(c, now))
		conn_advance_now(c, now);
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

void conn_unlink(struct ddlemu_conn *c)
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
