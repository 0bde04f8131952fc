// SPDX-License-Identifier: Apache-2.0
//
// The calls of the sending end.

#include "../transport/call.h"
#include "../transport/copy.h"
#include "advance.h"
#include "failure.h"
#include "fault.h"
#include "place.h"
#include "record.h"
#include "request.h"

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
		if (!has_entry(c, i))
			c->reusable = umin64(umin64(read64(&f->sends_done), load64(&f->receives_done)),
				load64(&f->published.oldest_msg));
	} while (!has_entry(c, i) && must_look_again(c));
	if (has_entry(c, i))
		r = new_request(c, i, (char *)data, size);
	if (r == NULL) {
		if (!has_entry(c, i) && c->clock == NULL)
			conn_advance_now(c, now); // the model may read receives, and then need fewer messages
		else
			conn_advance(c, now);
		copy_in(c, now);
		return DDLEMU_SUCCESS;
	}
	set_place(c, i, data, size);
	flow_post(f, size, now);
	note_post(c, r, now);
	copy_in(c, now);
	conn_posted(c, now);
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
	conn_advance(c, now);
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
		// ended. `dead` is loaded first: a process closes before it ends.
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

const struct ddlemu_ops ddlemu_shm_sender = {
	.isend = sender_isend, .irecv = ddlemu_no_irecv, .test = sender_test, .withdraw = sender_withdraw
};
