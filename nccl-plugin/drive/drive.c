// SPDX-License-Identifier: Apache-2.0

#include "drive.h"

#include <stdbool.h>
#include <time.h>

#include "../internal/transport/call.h"
#include "exchange.h"

static int complete_sends(struct drive_flow *f)
{
	while (f->complete < f->sent) {
		int done = 0;
		struct ddlemu_request *r = f->sends[f->complete % DRIVE_REQUESTS];
		int bad = f->sender->ops->test(r, &done, NULL);
		if (bad || !done)
			return bad;
		f->complete++;
	}
	return 0;
}

static int post(const struct drive *d, struct drive_flow *f)
{
	while (f->sent - f->complete < f->depth && f->sent < f->messages) {
		int64_t now = exchange_now(d->clock);
		if (now < f->next || now >= d->end)
			return 0;
		struct ddlemu_request *r = NULL;
		f->posted[f->sent] = now;
		int bad = f->sender->ops->isend(f->sender, f->out, f->size, &r);
		if (bad || r == NULL)
			return bad;
		f->returned[f->sent] = exchange_now(d->clock);
		f->sends[f->sent % DRIVE_REQUESTS] = r;
		f->next = now + f->spacing; // from the time of the post, so that two posts are never closer
		__atomic_store_n(&f->sent, f->sent + 1, __ATOMIC_RELEASE);
	}
	return 0;
}

// send_round completes and posts sends on every flow. *finished says whether nothing remains to send.
static int send_round(struct drive *d, bool *finished)
{
	bool pending = false;
	for (int i = 0; i < d->flows; i++) {
		struct drive_flow *f = &d->flow[i];
		int bad = complete_sends(f);
		if (!bad)
			bad = post(d, f);
		if (bad)
			return bad;
		pending = pending || f->complete < f->sent || f->sent < f->messages;
	}
	int64_t now = exchange_now(d->clock);
	if (!pending || now >= d->end)
		__atomic_store_n(&d->all_posted, 1, __ATOMIC_RELEASE);
	*finished = true;
	for (int i = 0; i < d->flows; i++)
		*finished = *finished && d->flow[i].complete == d->flow[i].sent;
	*finished = (*finished && (now >= d->end || !pending)) || now >= d->give_up;
	return 0;
}

static int receive(const struct drive *d, struct drive_flow *f)
{
	while (f->receives - f->received < DRIVE_REQUESTS && f->receives < f->messages) {
		struct ddlemu_request *r = NULL;
		int bad = f->receiver->ops->irecv(f->receiver, f->in, f->size, &r);
		if (bad)
			return bad;
		if (r == NULL)
			break;
		f->receiving[f->receives++ % DRIVE_REQUESTS] = r;
	}
	int64_t now = exchange_now(d->clock);
	while (f->received < f->receives) {
		int done = 0;
		int bad = f->receiver->ops->test(f->receiving[f->received % DRIVE_REQUESTS], &done, NULL);
		if (bad)
			return bad;
		if (!done)
			break;
		// A virtual clock stops at the moment at which the message becomes visible.
		f->missing[f->received] = d->clock == NULL ? f->looked : now;
		f->visible[f->received++] = exchange_now(d->clock);
	}
	f->looked = now;
	return 0;
}

// receive_round posts receives and completes them on every flow. *finished says whether nothing remains to receive.
static int receive_round(struct drive *d, bool *finished)
{
	// Loaded before `sent`: if nothing more will be posted, `sent` is final.
	*finished = __atomic_load_n(&d->all_posted, __ATOMIC_ACQUIRE);
	for (int i = 0; i < d->flows; i++) {
		struct drive_flow *f = &d->flow[i];
		int bad = receive(d, f);
		if (bad)
			return bad;
		*finished = *finished && f->received == __atomic_load_n(&f->sent, __ATOMIC_ACQUIRE);
	}
	*finished = *finished || exchange_now(d->clock) >= d->give_up;
	return 0;
}

// next_event is the time before which nothing can happen, 0 if that is not known.
static int64_t next_event(const struct drive *d)
{
	int64_t next = d->give_up;
	for (int i = 0; i < d->flows; i++) {
		const struct drive_flow *f = &d->flow[i];
		if (f->least == 0)
			return 0;
		if (f->sent < f->messages && f->sent - f->complete < f->depth && f->next < next)
			next = f->next;
		if (f->received < f->sent && f->posted[f->received] + f->least < next)
			next = f->posted[f->received] + f->least;
	}
	return next < d->end ? next : d->end;
}

static void sleep_until(int64_t at)
{
	struct timespec t = { .tv_sec = at / 1000000000, .tv_nsec = at % 1000000000 };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

// A thread wakes up some 100 us late if its core was idle. So it wakes this many ns early, and polls.
#define WAKE_EARLY 300000

// sleep_round sleeps after a round that completed nothing.
static void sleep_round(const struct drive *d)
{
	int64_t now = clock_now(), until = next_event(d) - WAKE_EARLY;
	if (d->nap > 0)
		sleep_until(now + d->nap);
	else if (until - now > WAKE_EARLY)
		sleep_until(until);
}

// next_timer is when something happens that no message causes. It is called before `end` is reached or when all that
// is left is to wait for messages.
static int64_t next_timer(const struct drive *d, int64_t now)
{
	int64_t next = now < d->end ? d->end : d->give_up;
	for (int i = 0; i < d->flows; i++) {
		const struct drive_flow *f = &d->flow[i];
		if (f->sent < f->messages && f->sent - f->complete < f->depth && f->next > now && f->next < next)
			next = f->next;
	}
	return next;
}

// wait_virtual is idle until a message or a post is due. `seen` is the node's number of events before the round that
// found nothing.
static void wait_virtual(const struct drive *d, uint32_t seen)
{
	struct ddlemu_clock_view *v = d->clock;
	ddlemu_actor_idle(v, ddlemu_actor_application(v), DDLEMU_EVENTS, seen, next_timer(d, exchange_now(d->clock)));
}

// completed counts the requests that are complete.
static uint64_t completed(const struct drive *d)
{
	uint64_t n = 0;
	for (int i = 0; i < d->flows; i++)
		n += d->flow[i].complete + d->flow[i].received;
	return n;
}

int drive_run(struct drive *d, int roles)
{
	bool sent = !(roles & DRIVE_SEND), received = !(roles & DRIVE_RECEIVE), both = !sent && !received;
	int bad = 0;
	uint64_t before = 0;
	while (!bad && !(sent && received) && !__atomic_load_n(&d->stop, __ATOMIC_RELAXED)) {
		uint32_t events = exchange_events(d->clock);
		if (!sent)
			bad = send_round(d, &sent);
		if (!bad && !received)
			bad = receive_round(d, &received);
		if (!both)
			continue;
		uint64_t now = completed(d);
		if (now == before && d->clock == NULL)
			sleep_round(d);
		else if (now == before && !(sent && received))
			wait_virtual(d, events);
		before = now;
	}
	if (bad)
		drive_stop(d);
	return bad;
}

void drive_stop(struct drive *d) { __atomic_store_n(&d->stop, 1, __ATOMIC_RELAXED); }
