// SPDX-License-Identifier: Apache-2.0
//
// The calls of the receiving end.

#include "../../../shaper/fabric/state/lateness.h"
#include "../transport/call.h"
#include "../transport/copy.h"
#include "advance.h"
#include "failure.h"
#include "fault.h"
#include "place.h"
#include "record.h"
#include "request.h"

static int receiver_irecv(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_conn *c = (struct ddlemu_conn *)comm;
	struct ddlemu_flow *f = c->f;
	*request = NULL;
	int64_t now = time_of(c);
	uint64_t i = read64(&f->receives_posted);
	struct ddlemu_conn_request *r = NULL;
	do {
		if (!has_entry(c, i))
			c->reusable = umin64(read64(&f->receives_done), load64(&f->published.oldest_msg));
	} while (!has_entry(c, i) && must_look_again(c));
	if (has_entry(c, i))
		r = new_request(c, i, data, size);
	if (r != NULL) {
		flow_receive(f, size, now);
		note_post(c, r, now);
		*request = &r->base;
	} else if (!has_entry(c, i)) {
		enum ddlemu_death dead = death(c);
		if (is_lock_lost(c, dead))
			return failure(c, dead, false); // no entry will ever be free
		if (c->clock == NULL)
			conn_advance_now(c, now); // the model may read receives, and then need fewer messages
		return DDLEMU_SUCCESS;
	}
	conn_posted(c, now);
	return DDLEMU_SUCCESS;
}

// count_carried counts a message at the links between switches of its path: those behind the sender's port and the link
// of the pair, before the receiver's port. stats are the statistics of hop 0.
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
			return fail_corrupt();
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
				return fail_corrupt();
			c->copied_off -= copied;
			continue;
		}
		if (copied > 0) {
			store64(&f->consumed, at);
			tell_waiting(c);
			raise_events(c);
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
		if (has_ledger(c))
			record_visible(r, visible);
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
		conn_advance(c, now);
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

const struct ddlemu_ops ddlemu_shm_receiver = {
	.isend = ddlemu_no_isend, .irecv = receiver_irecv, .test = receiver_test
};
