// SPDX-License-Identifier: Apache-2.0
//
// Losses and reordering. The fate of each packet is drawn when its segment is sent. Draws are
// named by the packet's number in the flow, so that they do not depend on how the stream is
// cut into segments.
//
//	go-back-N             the receiver discards everything behind a lost packet, and a packet
//	                      that overtakes another: the sender starts again there a round trip
//	                      later
//	selective repeat, tcp only lost packets are sent again; what arrived behind them, or
//	                      early, waits at the receiver

#include "loss.h"

#include "congestion.h"
#include "transport.h"

#define MAX_BACKOFF 6 // doublings of the RTO

// packet_counter names a transmission of packet k of the next segment in draws. A packet has
// 1024 numbers, then goes on with the numbers of the next packet: with its own numbers again, a
// chain that did not change its state in them never would.
static uint64_t packet_counter(const struct ddlemu_engine *e, uint64_t k, uint32_t attempt)
{
	return ((e->flow->packets + k) << 10) + attempt;
}

static bool loses_at(const struct ddlemu_engine *e, uint32_t i, uint64_t counter)
{
	struct ddlemu_flow *f = e->flow;
	struct ddlemu_hop *h = hop_at(e, i);
	bool bad = f->bad >> i & 1, lost = loses(&params_at(e, i)->loss, e->seed, h->id, f->id, counter, &bad);
	f->bad = (f->bad & ~(1u << i)) | (uint32_t)bad << i;
	return lost;
}

// is_lost draws whether packet k of the next segment is lost on the path, and notes where.
static bool is_lost(const struct ddlemu_engine *e, uint64_t k, uint32_t attempt, struct fate *fate)
{
	for (uint32_t i = 0; i < e->path.n; i++) {
		if (!can_lose(&params_at(e, i)->loss) || !loses_at(e, i, packet_counter(e, k, attempt)))
			continue;
		add64(&hop_at(e, i)->counters.drops, 1);
		fate->retransmit_hops = fate->retransmit_hops > i ? fate->retransmit_hops : i;
		return true;
	}
	return false;
}

// draws_early draws whether packet k of the next segment arrives early at the end of hop i.
static bool draws_early(const struct ddlemu_engine *e, uint32_t i, uint64_t k, uint32_t attempt)
{
	const struct ddlemu_hop *h = hop_at(e, i);
	return overtakes(&params_at(e, i)->reorder, e->seed, h->id, e->flow->id, packet_counter(e, k, attempt));
}

// is_early draws whether packet k of the next segment, which may start at ready, overtakes
// the packet before it: it arrives early, and that one does not. The first packet of a flow
// has none before it, and neither has one that is sent again, because the sender has sent
// nothing for a round trip.
static bool is_early(const struct ddlemu_engine *e, uint64_t k, uint32_t attempt, int64_t ready)
{
	if (k == 0 && (attempt > 0 || e->flow->packets == 0))
		return false;
	const struct ddlemu_params *first = params_at(e, 0);
	int64_t behind = serialization(e, first, first->payload);
	if (k == 0)
		behind += ready - e->flow->sender_free;
	for (uint32_t i = 0; i < e->path.n; i++) {
		const struct ddlemu_params *p = params_at(e, i);
		int64_t early = min64(p->reorder.early_ns, p->latency); // not before it was sent
		if (early > behind && draws_early(e, i, k, attempt) && !draws_early(e, i, k - 1, attempt))
			return true;
	}
	return false;
}

// step_discarded steps the Gilbert-Elliott chains for the packets from number k of the next
// segment on that the sender sends for so long, before it knows that the receiver discards
// them.
static void step_discarded(const struct ddlemu_engine *e, uint64_t k, int64_t duration)
{
	struct ddlemu_flow *f = e->flow;
	const struct ddlemu_params *first = params_at(e, 0);
	uint64_t n = (send_size(f, f->cur) - f->off) / first->payload;
	int64_t packet = serialization(e, first, first->payload);
	n -= umin64(n, k);
	if (packet > 0)
		n = umin64(n, (uint64_t)(duration / packet));
	n = umin64(n, DDLEMU_MAX_DISCARDED);
	for (uint32_t i = 0; i < e->path.n; i++)
		for (uint64_t j = 0; params_at(e, i)->loss.good_to_bad != 0 && j < n; j++)
			loses_at(e, i, packet_counter(e, k + j, f->attempt));
}

// detection is the time from the end of a lost packet to its retransmission: a round trip
// if a later packet of the message shows the gap to the receiver. If the last packet of a
// message is lost, nothing shows it: rdma waits for its timeout, tcp for its tail loss
// probe, two round trips later (RFC 8985).
static int64_t detection(const struct ddlemu_engine *e, bool tail)
{
	if (!tail)
		return round_trip(e);
	if (!is_rdma(e))
		return min64(e->transport->rto, 2 * round_trip(e));
	return e->transport->rto;
}

// recovery is the time that one round of retransmissions adds.
static int64_t recovery(const struct ddlemu_engine *e, uint32_t round, bool tail, uint32_t *flags)
{
	if (!has_window(e))
		return detection(e, tail);
	*flags |= SEGMENT_LOST;
	if (round == 0)
		return detection(e, tail);
	*flags |= SEGMENT_TIMEOUT;
	return e->transport->rto << (round - 1 < MAX_BACKOFF ? round - 1 : MAX_BACKOFF);
}

// cut_at_first cuts the segment at the first packet that go-back-N's receiver does not
// accept: a lost one, or one that comes before its predecessor.
static void cut_at_first(const struct ddlemu_engine *e, struct fate *fate, bool last, int64_t ready)
{
	uint32_t attempt = e->flow->attempt;
	for (uint32_t k = 0, n = fate->packets; k < n; k++) {
		bool lost = is_lost(e, k, attempt, fate);
		if (!lost && !is_early(e, k, attempt, ready))
			continue;
		if (!lost)
			fate->retransmit_hops = e->path.n; // it occupies all hops, and is discarded
		fate->packets = k;
		fate->cut = true;
		fate->retransmitted = 1;
		// A packet that comes early shows the gap by itself.
		fate->recovery = detection(e, lost && last && k + 1 == n);
		step_discarded(e, k + 1ull, fate->recovery);
		return;
	}
}

struct fate draw_fate(const struct ddlemu_engine *e, uint32_t n, bool last, int64_t ready)
{
	struct fate fate = { .packets = packets_of(params_at(e, 0), n) };
	if (is_go_back_n(e)) {
		cut_at_first(e, &fate, last, ready);
		return fate;
	}
	for (uint32_t round = 0, remaining = fate.packets; round < DDLEMU_MAX_ATTEMPTS; round++) {
		uint32_t lost = 0;
		bool tail = false;
		for (uint32_t k = 0; k < remaining; k++) {
			tail = is_lost(e, k, round, &fate);
			lost += tail;
		}
		if (lost == 0)
			break;
		last = last && tail;
		fate.retransmitted += lost;
		fate.recovery += recovery(e, round, last, &fate.flags);
		remaining = lost;
	}
	return fate;
}
