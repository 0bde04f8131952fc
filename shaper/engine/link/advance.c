// SPDX-License-Identifier: Apache-2.0
//
// The life of a message in the model: read_posts learns of it, inject cuts it into segments
// and sends these over the first hop, forward moves them over the others, arrive delivers
// them. transport.h and congestion.h say when a segment may start; loss.h what becomes of its
// packets; queue.h when a hop accepts it; host.h what the emulated hosts add.
//
// Hops are cut-through: a segment is ready for the next hop when its first byte is there,
//
//	start[i]    = max(ready[i], next_free[i])
//	ready[i+1]  = start[i] + latency[i]
//	finish[i+1] = max(finish[i] + latency[i], start[i+1] + serialization[i+1])
//
// A segment reserves a hop at most one serialization time before it is ready there. If it
// could reserve earlier, it would delay segments that arrive before it. So flows that share a
// hop are served round-robin, by segment.

#include "congestion.h"
#include "host.h"
#include "loss.h"
#include "parameters.h"
#include "queue.h"
#include "transport.h"

#define DOWN_POLL 1000000 // ns between two looks at a path that is down

// --- counters

static void count(
	struct ddlemu_engine *e, uint32_t i, const struct ddlemu_params *p, uint32_t n, uint32_t again, int64_t dur)
{
	struct ddlemu_carried *c = &e->carried[i];
	c->bytes += n;
	c->line_bytes += line_bytes(p, n);
	c->segments += 1 + again;
	c->busy_ns += dur;
	if (again > 0) {
		uint32_t packet = n < p->payload ? n : p->payload;
		c->bytes += (uint64_t)again * packet;
		c->line_bytes += again * line_bytes(p, packet);
	}
	e->any_carried = true;
}

// publish_counters adds what this call counted to the hops' counters, to which others add
// too. Nobody waits for these, so it comes last.
static void publish_counters(struct ddlemu_engine *e)
{
	if (!e->any_carried)
		return;
	e->any_carried = false;
	for (uint32_t i = 0; i < e->path.n; i++) {
		struct ddlemu_carried *c = &e->carried[i];
		struct ddlemu_counters *total = &hop_at(e, i)->counters;
		if (c->segments == 0)
			continue;
		add64(&total->bytes, c->bytes);
		add64(&total->line_bytes, c->line_bytes);
		add64(&total->segments, c->segments);
		if (c->busy_ns != 0)
			__atomic_fetch_add(&total->busy_ns, c->busy_ns, __ATOMIC_RELAXED);
		*c = (struct ddlemu_carried){ 0 };
	}
}

// --- segments

// most_bytes is the most that the next segment may hold: the least of the hops on the path. With
// tcp it is at least so large that a full send buffer is half of the segments that a flow keeps;
// segments may be half as long, so there may be more. And it is at most a quarter of the send
// buffer and of the window, so that acknowledgements come before these are full.
static uint32_t most_bytes(const struct ddlemu_engine *e)
{
	uint64_t n = UINT32_MAX;
	for (uint32_t i = 0; i < e->path.n; i++)
		n = umin64(n, params_at(e, i)->segment);
	const struct ddlemu_transport *t = e->transport;
	if (t->kind == DDLEMU_TCP) {
		uint64_t packet = mss(e);
		uint64_t packets = (t->send_buffer / (DDLEMU_MAX_SEGMENTS / 2) + packet - 1) / packet;
		n = umax64(n, umin64(packets, DDLEMU_SEGMENT_BYTES / packet) * packet);
		n = umin64(n, umin64(umax64(t->send_buffer / 4, 1), umax64(t->window / 4, 1)));
	}
	if (has_window(e) && !window_is_open(e))
		n = umin64(n, umax64(e->flow->window.max_segment, mss(e)));
	return (uint32_t)n;
}

// The longest message that is computed with: the sender may write any size, and sums with it must fit 64 bits.
#define LONGEST_MESSAGE (1ull << 62)

// A part of the message that is cut now.
struct part {
	uint64_t offset; // in the stream
	uint64_t remaining; // bytes of the message from there on
	uint64_t message; // bytes of all of it
};

static struct part next_part(const struct ddlemu_engine *e)
{
	struct ddlemu_flow *f = e->flow;
	uint64_t stated = send_size(f, f->cur), size = umin64(stated, LONGEST_MESSAGE);
	return (struct part){
		.offset = send_end(f, f->cur) - stated + f->off,
		.remaining = size - umin64(size, f->off), // the sender may have made the message shorter meanwhile
		.message = size,
	};
}

// segment_bytes is the size of the next segment, if so many bytes of the message remain. They are
// cut into as few segments as possible, of equal size in whole packets: a hop serves flows by
// segment, so a short rest would wait as long for its turn as a full segment.
static uint32_t segment_bytes(const struct ddlemu_engine *e, uint64_t remaining)
{
	uint64_t most = most_bytes(e);
	if (remaining <= most)
		return (uint32_t)remaining;
	uint64_t segments = (remaining + most - 1) / most, equal = (remaining + segments - 1) / segments;
	uint64_t packet = mss(e);
	return (uint32_t)umin64((equal + packet - 1) / packet * packet, most);
}

// down_since is the time since which the path is down: the time at which the first of its hops went down. DDLEMU_NEVER
// if it is up.
static int64_t down_since(const struct ddlemu_engine *e)
{
	int64_t since = DDLEMU_NEVER;
	for (uint32_t i = 0; i < e->path.n; i++) {
		if (params_at(e, i)->down)
			since = min64(since, e->forward[i].down_since);
	}
	return since;
}

// arrives_at notes when segment s, which has passed the last hop, is at the receiver.
static void arrives_at(const struct ddlemu_engine *e, struct ddlemu_segment *s)
{
	struct ddlemu_flow *f = e->flow;
	int64_t arrived = s->finish + e->transport->overhead, written = s->last ? send_written(f, s->msg) : 0;
	if (written != 0) // a path within a node is as long in both directions
		arrived = max64(arrived, written + reverse_latency(e));
	if (has_window(e)) {
		f->window.last_first_copy = max64(f->window.last_first_copy, arrived);
		s->first_copy = f->window.last_first_copy;
	}
	s->due = max64(f->last_due, arrived + s->recovery);
	f->last_due = s->due;
	if (!s->last)
		return;
	struct ddlemu_times *t = times_at(f, s->msg);
	if (!hosts_cost(e)) {
		t->due = s->due;
		f->results.due_count = s->msg + 1;
	}
	if (is_rdma(e)) {
		t->complete = s->due + reverse_latency(e);
		f->results.complete_count = s->msg + 1;
	}
}

// record_flags is what a record of segment s at hop i says besides its times.
static uint32_t record_flags(const struct ddlemu_engine *e, const struct ddlemu_segment *s, uint32_t i)
{
	uint64_t offset = s->end - s->bytes;
	bool reduced = i == 0 && has_window(e) && offset > 0 && e->flow->window.recover == offset;
	return (s->flags & SEGMENT_MARKED ? DDLEMU_RECORD_CE : 0) |
		(s->flags & SEGMENT_DROPPED ? DDLEMU_RECORD_DROPPED : 0) | (reduced ? DDLEMU_RECORD_REDUCED : 0);
}

// note_record notes what segment s did at hop i, which has marked so many packets, for a reader.
static void note_record(struct ddlemu_hop_records *p, const struct ddlemu_engine *e, const struct ddlemu_segment *s,
	uint32_t i, int64_t ready, int64_t start, int64_t dur, uint32_t marked)
{
	if (p->n == p->capacity) {
		p->lost++;
		return;
	}
	p->at[p->n++] = (struct ddlemu_hop_record){
		.flow = e->number,
		.hop = i,
		.msg = s->msg,
		.segment = (uint32_t)s->number,
		.bytes = s->bytes,
		.last = s->last,
		.retransmitted = i <= s->retransmit_hops ? s->retransmitted : 0,
		.marked = marked,
		.flags = record_flags(e, s, i),
		.ready = ready,
		.start = start,
		.dur = dur,
		.next = s->ready,
		.finish = s->finish,
	};
}

// note_discarded notes, for a reader, that one packet occupied the first hop, which will be sent again.
static void note_discarded(const struct ddlemu_engine *e, int64_t ready, int64_t start, int64_t dur)
{
	struct ddlemu_segment s = { .msg = e->flow->cur,
		.number = e->flow->segments,
		.retransmitted = 1,
		.ready = start + dur,
		.finish = start + dur };
	if (e->records != NULL)
		note_record(e->records, e, &s, 0, ready, start, dur, 0);
}

// leave_hop notes that segment s has left hop i: it occupied the hop from start on for dur ns,
// and its last byte left the hop at finish. The hop gave an ECN mark to so many of its packets.
static void leave_hop(const struct ddlemu_engine *e, struct ddlemu_segment *s, uint32_t i, int64_t start, int64_t dur,
	int64_t finish, uint32_t marked)
{
	struct ddlemu_flow *f = e->flow;
	struct ddlemu_hop *h = hop_at(e, i);
	const struct ddlemu_params *p = params_at(e, i);
	int64_t latency = p->latency;
	if (p->jitter.kind != DDLEMU_NO_JITTER) {
		uint64_t d = draw(e->seed, h->id, DRAW_JITTER, f->id, s->number);
		latency += jitter_of(&p->jitter, d, jitter_table(e->tables, p->jitter.kind));
	}
	latency = max64(0, latency);
	int64_t ready = s->ready;
	s->previous_dur = dur;
	s->ready = max64(start + latency, f->last_ready[i]); // segments stay in order, whatever the jitter
	f->last_ready[i] = s->ready;
	s->finish = finish + latency;
	if (e->records != NULL)
		note_record(e->records, e, s, i, ready, start, dur, marked);
	if (i == e->path.n - 1)
		arrives_at(e, s);
}

// reserve occupies hop h for dur ns, and the buffer behind it, as granted, and returns the
// start. The step of message msg was possible from ready on, and is made now.
static int64_t reserve(struct ddlemu_flow *f, struct ddlemu_hop *h, struct buffer_grant grant, int64_t dur,
	uint64_t msg, int64_t ready, int64_t now)
{
	int64_t start = occupy(&h->next_free, grant.start, dur);
	occupy(&h->buffer_free, start, grant.reserve);
	add_distortion(f, msg, start, ready, now);
	return start;
}

// --- the first hop

// cut_segment counts segment s as cut from its message. It carries so many new packets.
static void cut_segment(const struct ddlemu_engine *e, const struct ddlemu_segment *s, uint32_t packets)
{
	struct ddlemu_flow *f = e->flow;
	f->at[0]++;
	f->segments++;
	f->packets += packets;
	f->off += s->bytes;
	if (s->last) {
		f->cur++;
		f->off = 0;
	}
	if (has_window(e))
		window_sent(e, s->end);
}

// cut_bytes is how many bytes go-back-N sends if the receiver does not accept a packet: those
// before the packet. If it is the first, the packet itself, which is then no retransmission.
static uint32_t cut_bytes(const struct ddlemu_params *p, struct fate *fate, uint32_t packet)
{
	if (fate->packets > 0)
		return fate->packets * p->payload;
	fate->retransmitted = 0;
	return packet;
}

// stripes is over how many of the NIC's rails a message of so many bytes goes. Each has at least min_stripe of them,
// and their number divides the number of rails (aws-ofi-nccl, src/nccl_ofi_scheduler.cpp).
static uint32_t stripes(const struct ddlemu_transport *t, uint64_t size)
{
	uint64_t n = umin64((size + t->min_stripe - 1) / t->min_stripe, t->rails);
	while (n > 1 && t->rails % n != 0)
		n--;
	return n > 1 ? (uint32_t)n : 1;
}

// finish_on_rails is when the last byte of a segment of the current message, of so many bytes, leaves the first hop,
// which the segment occupies from start on for dur ns. The hop is all rails together. A message that goes over some of
// them takes longer, while the other rails send other messages.
static int64_t finish_on_rails(const struct ddlemu_engine *e, uint64_t message, int64_t start, int64_t dur)
{
	struct ddlemu_flow *f = e->flow;
	const struct ddlemu_transport *t = e->transport;
	if (t->rails < 2)
		return start + dur;
	if (f->off == 0)
		f->stripes_sent = start;
	f->stripes_sent += dur * (int64_t)(t->rails / stripes(t, message));
	return max64(start + dur, f->stripes_sent);
}

// send occupies the first hop with the first n bytes of a part, which take dur ns, from ready on, or
// with as many of them as losses leave.
static void send(struct ddlemu_engine *e, struct part m, uint32_t n, int64_t dur, int64_t ready, int64_t now)
{
	struct ddlemu_flow *f = e->flow;
	struct ddlemu_hop *h = hop_at(e, 0);
	const struct ddlemu_params *p = params_at(e, 0);
	bool last = n == m.remaining;
	struct fate fate = fate_of(e, n, last, ready);
	uint32_t packet = n < p->payload ? n : p->payload, recovered = 0;
	if (fate.cut) {
		n = cut_bytes(p, &fate, packet);
		last = false;
		dur = serialization(e, p, n);
	}
	if (has_window(e))
		recovered = window_recover(e, m.offset, fate.packets);
	if (recovered > 0) {
		fate.retransmitted += recovered;
		fate.retransmit_hops = e->path.n;
	}
	if (fate.retransmitted > 0)
		dur += fate.retransmitted * serialization(e, p, packet);
	int64_t occupied = f->off == 0 ? max64(dur, e->transport->gap) : dur;
	int64_t start = reserve(f, h, queue_earliest(e, 0, n, occupied, ready, now), occupied, f->cur, ready, now);
	count(e, 0, p, n, fate.retransmitted, occupied);
	f->sender_free = start + dur;
	f->attempt = fate.cut ? f->attempt + 1 : 0;
	if (fate.cut) {
		// The receiver discards everything behind this, so nothing is sent until the sender
		// knows.
		f->sender_free += fate.recovery;
		fate.recovery = 0;
		if (fate.packets == 0) {
			note_discarded(e, ready, start, dur);
			return;
		}
	}
	struct ddlemu_segment *s = segment_at(f, f->at[0]);
	*s = (struct ddlemu_segment){
		.end = m.offset + n,
		.msg = f->cur,
		.bytes = n,
		.last = last,
		.number = f->segments,
		.retransmitted = fate.retransmitted,
		.retransmit_hops = fate.retransmit_hops,
		.recovered = recovered,
		.flags = fate.flags,
		.recovery = fate.recovery,
		.ready = ready,
		.due = DDLEMU_NEVER,
	};
	leave_hop(e, s, 0, start, dur, finish_on_rails(e, m.message, start, dur), 0);
	cut_segment(e, s, fate.packets);
}

// too_early notes that a step may be made at time `at`, if that is still to come.
static bool too_early(int64_t now, int64_t at, int64_t *next)
{
	if (now >= at)
		return false;
	*next = min64(*next, at);
	return true;
}

// stop_while_down says whether the path is down. The flow breaks if the path has been down for longer than the
// transport waits, and the flow has had something to send for as long.
static bool stop_while_down(const struct ddlemu_engine *e, int64_t ready, int64_t now, int64_t *next)
{
	int64_t since = down_since(e);
	if (since == DDLEMU_NEVER)
		return false;
	if (now - max64(ready, since) > e->transport->down_timeout)
		__atomic_store_n(&e->flow->broken, DDLEMU_LINK_DOWN, __ATOMIC_RELEASE);
	e->flow->next_look = now + DOWN_POLL;
	*next = min64(*next, e->flow->next_look);
	return true;
}

// known_spare is the time at which the sender knows that the oldest segment kept was read.
// From then on it may be forgotten.
static int64_t known_spare(const struct ddlemu_engine *e)
{
	const struct ddlemu_flow *f = e->flow;
	if (is_rdma(e) || f->oldest == f->segments_arrived)
		return DDLEMU_NEVER;
	return known_read(e, segment_at(e->flow, f->oldest));
}

// inject sends the next segment over the first hop, if its time has come.
static bool inject(struct ddlemu_engine *e, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = e->flow;
	if (f->cur == f->known || f->broken)
		return false;
	struct part m = next_part(e);
	uint32_t n = segment_bytes(e, m.remaining);
	bool first = f->off == 0, window = has_window(e);
	int64_t ready = f->sender_free;
	if (first)
		ready = max64(ready, sender_ready(e, f->cur) + e->transport->overhead);
	ready = max64(max64(ready, send_allowed(e, m.offset + n)), f->queue_free[0]);
	int64_t entry = window ? window_entry_free(e) : 0;
	ready = max64(ready, entry);
	if (ready == DDLEMU_NEVER)
		return false;
	int64_t dur = serialization(e, params_at(e, 0), n), occupied = first ? max64(dur, e->transport->gap) : dur;
	if (too_early(now, ready - occupied, next) || queue_full(e, 1, n))
		return false;
	if (window) {
		ready = window_open(e, m.offset, n, ready, max64(ready - occupied, entry));
		if (ready == DDLEMU_NEVER || too_early(now, ready - occupied, next) || !window_free_entry(e))
			return false;
	}
	if (stop_while_down(e, ready, now, next))
		return false;
	ready = max64(ready, min64(f->next_look, now)); // nothing is sent while the path is down
	if (f->at[0] - f->oldest == DDLEMU_MAX_SEGMENTS) {
		f->stalls++;
		int64_t known = known_spare(e);
		if (known == DDLEMU_NEVER)
			return false;
		ready = max64(ready, known);
		if (too_early(now, ready - occupied, next))
			return false;
		forget_oldest(f);
	}
	send(e, m, n, dur, ready, now);
	return true;
}

// --- the other hops

// drop handles a segment that a queue does not accept. wait is how long it would have waited
// there. Without a congestion window the whole flow waits until the segment is sent again;
// with one, it is sent again beside what follows.
static void drop(const struct ddlemu_engine *e, struct ddlemu_segment *s, int64_t wait)
{
	if (!has_window(e)) {
		s->ready += round_trip(e);
		return;
	}
	s->flags |= SEGMENT_DROPPED | SEGMENT_LOST;
	s->recovery += round_trip(e) + wait;
}

// forward sends the next segment over hop i, if its time has come.
static bool forward(struct ddlemu_engine *e, uint32_t i, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = e->flow;
	if (f->at[i] == f->at[i - 1])
		return false;
	struct ddlemu_segment *s = segment_at(f, f->at[i]);
	struct ddlemu_hop *h = hop_at(e, i);
	const struct ddlemu_params *p = params_at(e, i);
	uint32_t again = i <= s->retransmit_hops ? s->retransmitted : 0;
	int64_t dur = serialization(e, p, s->bytes);
	if (again > 0)
		dur += again * serialization(e, p, s->bytes < p->payload ? s->bytes : p->payload);
	if (queue_full(e, i + 1, s->bytes))
		return false;
	int64_t ready = queue_ready(e, i, s);
	if (too_early(now, queue_decided(e, p, ready, dur), next))
		return false;
	if (s->flags & SEGMENT_DROPPED) {
		leave_hop(e, s, i, s->ready, 0, s->finish, 0);
		f->at[i]++;
		return true;
	}
	bool reserves = !(e->path.private_mask >> i & 1) || dur > s->previous_dur || p->queue.policy == DDLEMU_FAIR;
	struct buffer_grant grant = { ready, 0 };
	if (reserves)
		grant = queue_earliest(e, i, s->bytes, dur, ready, now);
	int64_t start = max64(grant.start, __atomic_load_n(&h->next_free, __ATOMIC_RELAXED)), wait = start - s->ready;
	if (queue_drops(p, wait)) {
		add64(&h->counters.drops, packets_of(p, s->bytes) + again);
		drop(e, s, wait);
		return true;
	}
	if (queue_full(e, i, s->bytes))
		f->queue_free[i - 1] = start;
	uint32_t marked = 0;
	if (queue_marks(p, wait)) {
		marked = packets_of(p, s->bytes) + again;
		add64(&h->counters.ecn_marks, marked);
		s->flags |= SEGMENT_MARKED;
	}
	if (reserves)
		start = reserve(f, h, grant, dur, s->msg, ready, now);
	f->served[i] = start + dur;
	count(e, i, p, s->bytes, again, dur);
	leave_hop(e, s, i, start, dur, max64(s->finish, start + dur), marked);
	f->at[i]++;
	return true;
}

// --- the receiver

// arrive delivers the next segment, if it is due.
static bool arrive(const struct ddlemu_engine *e, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = e->flow;
	forget_arrived(e, now, next);
	if (f->segments_arrived == f->at[e->path.n - 1])
		return false;
	struct ddlemu_segment *s = segment_at(f, f->segments_arrived);
	int64_t due = s->due;
	if (s->last && now >= due && hosts_cost(e))
		due = host_deliver(e, s, now);
	if (too_early(now, due, next))
		return false;
	f->results.arrived = s->end;
	f->segments_arrived++;
	return true;
}

// --- posts of the ends, and results published for them

// read_posts reads what the ends have posted. A sender that says it has more messages
// unfinished than there is space for is broken: the loop below would run over up to 2^64
// messages.
static void read_posts(const struct ddlemu_engine *e, int64_t now)
{
	struct ddlemu_flow *f = e->flow;
	uint64_t posted = load64(&f->posted);
	if (posted - f->known > DDLEMU_MAX_MESSAGES) {
		__atomic_store_n(&f->broken, DDLEMU_CORRUPT, __ATOMIC_RELEASE);
		return;
	}
	if (e->posts_at_once > 0)
		posted = umin64(posted, f->known + e->posts_at_once);
	f->results.posts_seen = posted;
	f->results.receives_seen = load64(&f->receives_posted);
	for (; f->known < posted; f->known++) {
		int64_t posted_at = send_posted(f, f->known);
		*times_at(f, f->known) = (struct ddlemu_times){ .due = DDLEMU_NEVER, .complete = DDLEMU_NEVER };
		if (hosts_cost(e))
			times_at(f, f->known)->ready = host_send(e, f->known, posted_at, now);
		f->tail = send_end(f, f->known);
		f->last_posted = posted_at;
	}
}

static void publish_one(uint64_t *published, uint64_t v)
{
	if (*published != v)
		store64(published, v);
}

// publish tells both ends the results. A message's times are written before it is counted.
static void publish(struct ddlemu_flow *f)
{
	publish_one(&f->published.due_count, f->results.due_count);
	publish_one(&f->published.complete_count, f->results.complete_count);
	publish_one(&f->published.arrived, f->results.arrived);
	publish_one(&f->published.oldest_msg, f->results.oldest_msg);
	publish_one(&f->published.posts_seen, f->results.posts_seen);
	publish_one(&f->published.receives_seen, f->results.receives_seen);
	if (f->published.next != f->results.next)
		__atomic_store_n(&f->published.next, f->results.next, __ATOMIC_RELAXED);
}

void flow_advance(struct ddlemu_engine *e, int64_t now)
{
	struct ddlemu_flow *f = e->flow;
	take_parameters(e);
	read_posts(e, now);
	// With a congestion window, the first iteration leaves out inject: the other steps must first
	// find all acknowledgements up to now.
	for (bool acknowledgements_first = has_window(e);; acknowledgements_first = false) {
		int64_t next = DDLEMU_NEVER;
		bool moved = acknowledgements_first || inject(e, now, &next);
		for (uint32_t i = 1; i < e->path.n; i++)
			while (forward(e, i, now, &next))
				moved = true;
		while (arrive(e, now, &next))
			moved = true;
		complete_sends(e);
		if (moved)
			continue;
		f->results.oldest_msg = f->oldest < f->at[0] ? segment_at(f, f->oldest)->msg : f->cur;
		f->results.next = next;
		publish(f);
		publish_counters(e);
		return;
	}
}
