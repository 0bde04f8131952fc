// SPDX-License-Identifier: Apache-2.0

#include "drive.h"

#include <stdbool.h>
#include <time.h>

#include "../internal/transport/call.h"

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

static int post(struct drive_flow *f, int64_t end)
{
	while (f->sent - f->complete < f->depth && f->sent < f->most) {
		int64_t now = clock_now();
		if (now < f->next || now >= end)
			return 0;
		struct ddlemu_request *r = NULL;
		f->posted[f->sent] = now;
		int bad = f->sender->ops->isend(f->sender, f->out, f->size, &r);
		if (bad || r == NULL)
			return bad;
		f->taken[f->sent] = clock_now();
		f->sends[f->sent % DRIVE_REQUESTS] = r;
		f->next = now + f->spacing; // counted from when it was posted: never closer than that
		__atomic_store_n(&f->sent, f->sent + 1, __ATOMIC_RELEASE);
	}
	return 0;
}

// send_all is a round of the sender's part. *over says that it is through.
static int send_all(struct drive *d, bool *over)
{
	bool pending = false;
	for (int i = 0; i < d->flows; i++) {
		struct drive_flow *f = &d->flow[i];
		int bad = complete_sends(f);
		if (!bad)
			bad = post(f, d->end);
		if (bad)
			return bad;
		pending = pending || f->complete < f->sent || f->sent < f->most;
	}
	int64_t now = clock_now();
	if (!pending || now >= d->end)
		__atomic_store_n(&d->over, 1, __ATOMIC_RELEASE);
	*over = true;
	for (int i = 0; i < d->flows; i++)
		*over = *over && d->flow[i].complete == d->flow[i].sent;
	*over = (*over && (now >= d->end || !pending)) || now >= d->give_up;
	return 0;
}

static int receive(struct drive_flow *f)
{
	while (f->receives - f->received < DRIVE_REQUESTS && f->receives < f->most) {
		struct ddlemu_request *r = NULL;
		int bad = f->receiver->ops->irecv(f->receiver, f->in, f->size, &r);
		if (bad)
			return bad;
		if (r == NULL)
			break;
		f->receiving[f->receives++ % DRIVE_REQUESTS] = r;
	}
	int64_t now = clock_now();
	while (f->received < f->receives) {
		int done = 0;
		int bad = f->receiver->ops->test(f->receiving[f->received % DRIVE_REQUESTS], &done, NULL);
		if (bad)
			return bad;
		if (!done)
			break;
		f->missing[f->received] = f->looked;
		f->visible[f->received++] = clock_now();
	}
	f->looked = now;
	return 0;
}

// receive_all is a round of the receiver's part.
static int receive_all(struct drive *d, bool *over)
{
	// Before what was sent is looked at: afterwards it is the last word.
	*over = __atomic_load_n(&d->over, __ATOMIC_ACQUIRE);
	for (int i = 0; i < d->flows; i++) {
		struct drive_flow *f = &d->flow[i];
		int bad = receive(f);
		if (bad)
			return bad;
		*over = *over && f->received == __atomic_load_n(&f->sent, __ATOMIC_ACQUIRE);
	}
	*over = *over || clock_now() >= d->give_up;
	return 0;
}

// next_event is before when nothing can happen; 0 if that is not known.
static int64_t next_event(const struct drive *d)
{
	int64_t next = d->give_up;
	for (int i = 0; i < d->flows; i++) {
		const struct drive_flow *f = &d->flow[i];
		if (f->least == 0)
			return 0;
		if (f->sent < f->most && f->sent - f->complete < f->depth && f->next < next)
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

// A sleeping thread wakes up late, by some 100 us where a core was idle, so this much
// (ns) is polled.
#define WAKE 300000

// rest sleeps after a round that left the counts as they were.
static void rest(const struct drive *d)
{
	int64_t now = clock_now(), until = next_event(d) - WAKE;
	if (d->nap > 0)
		sleep_until(now + d->nap);
	else if (until - now > WAKE)
		sleep_until(until);
}

// ended is how many operations have come to an end.
static uint64_t ended(const struct drive *d)
{
	uint64_t n = 0;
	for (int i = 0; i < d->flows; i++)
		n += d->flow[i].complete + d->flow[i].received;
	return n;
}

int drive_run(struct drive *d, int parts)
{
	bool sent = !(parts & DRIVE_SEND), received = !(parts & DRIVE_RECEIVE), both = !sent && !received;
	int bad = 0;
	uint64_t before = 0;
	while (!bad && !(sent && received) && !__atomic_load_n(&d->stop, __ATOMIC_RELAXED)) {
		if (!sent)
			bad = send_all(d, &sent);
		if (!bad && !received)
			bad = receive_all(d, &received);
		if (!both)
			continue;
		uint64_t now = ended(d);
		if (now == before)
			rest(d);
		before = now;
	}
	if (bad)
		drive_stop(d);
	return bad;
}

void drive_stop(struct drive *d) { __atomic_store_n(&d->stop, 1, __ATOMIC_RELAXED); }
