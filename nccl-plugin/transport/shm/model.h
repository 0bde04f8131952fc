// SPDX-License-Identifier: Apache-2.0
//
// The link model on shared memory: shaper/link in C, function by function, so
// read that first. Differences: a hop's next_free is taken by compare-and-swap,
// because other processes take it too, and counters are atomic. Every function
// here runs under the flow's lock.
#ifndef DDLEMU_SHM_MODEL_H
#define DDLEMU_SHM_MODEL_H

#include <stdbool.h>

#include "flow.h"

#ifdef DDLEMU_FAULTS
int64_t fault_rate(int64_t dur); // see fault.c
#else
static inline int64_t fault_rate(int64_t dur) { return dur; }
#endif

#define DDLEMU_TCP 0
#define DDLEMU_RDMA 1
#define DDLEMU_LOSSLESS 0
#define DDLEMU_TAIL_DROP 1
#define DDLEMU_FAIR 2
#define DDLEMU_DOWN_POLL 1000000
#define DDLEMU_MAX_ATTEMPTS 64 // link.MaxAttempts
#define DDLEMU_MAX_WASTED 1024 // link.MaxWasted
#define DDLEMU_CUBIC 2
#define DDLEMU_MAX_HOST_MESSAGE (1ull << 36)

// What a hop has carried.
struct ddlemu_carried {
	uint64_t bytes, wire, segments;
	int64_t busy_ns;
};

// A flow as one process sees it: the shared part, and the fabric's file. The path
// is this process's own copy, because it says where the file is written: what the
// peer does to the shared one later does no harm.
struct ddlemu_model {
	struct ddlemu_flow *f;
	struct ddlemu_path path;
	const struct ddlemu_header *head;
	struct ddlemu_hop *hops;
	const struct ddlemu_params *blocks;
	const int32_t *tables; // 3 x DDLEMU_JITTER_TABLE
	// What the hops have carried in this call of model_advance, by place in the path.
	struct ddlemu_carried carried[DDLEMU_MAX_HOPS];
	bool carries;
};

static inline uint64_t load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline void add64(uint64_t *p, uint64_t v) { __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline uint64_t umax64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t umin64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static inline struct ddlemu_tx *tx_of(struct ddlemu_flow *f, uint64_t i) { return &f->tx[i % DDLEMU_MAX_MESSAGES]; }
static inline struct ddlemu_rx *rx_of(struct ddlemu_flow *f, uint64_t i) { return &f->rx[i % DDLEMU_MAX_MESSAGES]; }
static inline struct ddlemu_out *out_of(struct ddlemu_flow *f, uint64_t i) { return &f->out[i % DDLEMU_MAX_MESSAGES]; }
static inline struct ddlemu_segment *seg_of(struct ddlemu_flow *f, uint64_t i)
{
	return &f->segs[i % DDLEMU_MAX_SEGMENTS];
}

static inline struct ddlemu_hop *hop_of(const struct ddlemu_model *m, uint32_t i) { return &m->hops[m->path.hop[i]]; }

static inline const struct ddlemu_params *params_of(const struct ddlemu_model *m, const struct ddlemu_hop *h)
{
	return &m->blocks[__atomic_load_n(&h->params, __ATOMIC_ACQUIRE)];
}

// --- params.go

static inline uint32_t model_packets(const struct ddlemu_params *p, uint32_t n)
{
	return n == 0 ? 1 : (n + p->payload - 1) / p->payload;
}

static inline uint64_t model_wire(const struct ddlemu_params *p, uint32_t n)
{
	return n + (uint64_t)model_packets(p, n) * p->per_packet;
}

static inline int64_t model_serialise(const struct ddlemu_params *p, uint32_t n)
{
	if (p->ns_den == 0)
		return 0;
	return fault_rate((int64_t)((model_wire(p, n) * p->ns_num + p->ns_den - 1) / p->ns_den));
}

// --- hop.go

// model_take takes what is free at *free_at for dur ns from ready on and returns the
// start.
static inline int64_t model_take(int64_t *free_at, int64_t ready, int64_t dur)
{
	int64_t at = __atomic_load_n(free_at, __ATOMIC_RELAXED);
	int64_t start;
	if (dur == 0)
		return max64(ready, at);
	do
		start = max64(ready, at);
	while (!__atomic_compare_exchange_n(free_at, &at, start + dur, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return start;
}

static inline int64_t model_reserve(struct ddlemu_hop *h, int64_t ready, int64_t dur)
{
	return model_take(&h->next_free, ready, dur);
}

static inline int64_t model_charge(const struct ddlemu_model *m, struct ddlemu_hop *h, uint32_t n, int64_t now)
{
	const struct ddlemu_params *p = params_of(m, h);
	if (p->policy != DDLEMU_LOSSLESS || p->queue_ns == 0)
		return 0;
	int64_t dur = model_serialise(p, n), ahead = __atomic_load_n(&h->next_free, __ATOMIC_RELAXED) - now,
		room = max64(p->queue_ns, dur);
	return ahead <= room ? 0 : (int64_t)((unsigned __int128)ahead * (uint64_t)dur / (uint64_t)room);
}

static inline int64_t model_geometric_mean(int64_t a, int64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * (uint64_t)b;
	uint64_t hi = (uint64_t)(product >> 64), lo = (uint64_t)product;
	int length = hi > 0 ? 128 - __builtin_clzll(hi) : 64 - __builtin_clzll(lo);
	uint64_t x = 1ull << (length + 1) / 2;
	for (;;) {
		uint64_t y = (x + (uint64_t)(product / x)) / 2;
		if (y >= x)
			return (int64_t)x;
		x = y;
	}
}

static inline uint32_t model_packet(const struct ddlemu_params *p, uint32_t n)
{
	return n < p->payload ? n : p->payload;
}

static inline void model_count(
	struct ddlemu_model *m, uint32_t i, const struct ddlemu_params *p, uint32_t n, uint32_t again, int64_t dur)
{
	struct ddlemu_carried *c = &m->carried[i];
	c->bytes += n;
	c->wire += model_wire(p, n);
	c->segments++;
	c->busy_ns += dur;
	if (again > 0) {
		c->bytes += (uint64_t)again * model_packet(p, n);
		c->wire += again * model_wire(p, model_packet(p, n));
		c->segments += again;
	}
	m->carries = true;
}

// model_tell adds what was counted to the hops' counters, which others add to too.
// Nobody waits for these, so it comes after what somebody does wait for.
static inline void model_tell(struct ddlemu_model *m)
{
	if (!m->carries)
		return;
	m->carries = false;
	for (uint32_t i = 0; i < m->path.n; i++) {
		struct ddlemu_carried *c = &m->carried[i];
		struct ddlemu_hop *h = hop_of(m, i);
		if (c->segments == 0)
			continue;
		add64(&h->bytes, c->bytes);
		add64(&h->wire, c->wire);
		add64(&h->segments, c->segments);
		if (c->busy_ns != 0)
			__atomic_fetch_add(&h->busy_ns, c->busy_ns, __ATOMIC_RELAXED);
		*c = (struct ddlemu_carried){ 0 };
	}
}

// --- random.go

enum { DRAW_JITTER = 1, DRAW_LOSS, DRAW_STATE };
enum { JITTER_NONE, JITTER_UNIFORM, JITTER_NORMAL };

static inline uint64_t model_mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline uint64_t model_draw(uint64_t seed, uint32_t hop, uint32_t kind, uint64_t flow, uint64_t counter)
{
	uint64_t h = model_mix(seed ^ 0x9e3779b97f4a7c15ull * ((uint64_t)hop << 8 | kind));
	return model_mix(model_mix(h ^ flow) ^ counter);
}

static inline int64_t model_jitter(const struct ddlemu_model *m, const struct ddlemu_params *p, uint64_t draw)
{
	if (p->jitter_kind == JITTER_NONE)
		return 0;
	if (p->jitter_kind == JITTER_UNIFORM)
		return p->jitter * ((int64_t)(draw >> 44) - (1 << 19)) >> 19;
	const int32_t *t = m->tables + (size_t)(p->jitter_kind - JITTER_NORMAL) * DDLEMU_JITTER_TABLE;
	uint64_t i = draw >> 52;
	int64_t a = t[i], b = i + 1 < DDLEMU_JITTER_TABLE ? t[i + 1] : a;
	int64_t q = a + ((b - a) * ((int64_t)(draw >> 36) & 0xffff) >> 16);
	return p->jitter / 65536 * q + (p->jitter % 65536 * q >> 16);
}

// --- host.go

static inline void model_distort(struct ddlemu_flow *f, uint64_t msg, int64_t start, int64_t ready, int64_t now)
{
	if (now > ready && start > ready)
		out_of(f, msg)->distortion += min64(start, now) - ready;
}

static inline bool model_has_host(const struct ddlemu_model *m)
{
	const struct ddlemu_transport *t = &m->head->transport;
	return t->host_per_message != 0 || t->host_ns_den != 0;
}

static inline int64_t model_host_time(const struct ddlemu_transport *t, uint64_t size)
{
	if (t->host_ns_den == 0)
		return t->host_per_message;
	unsigned __int128 ns = (unsigned __int128)umin64(size, DDLEMU_MAX_HOST_MESSAGE) * t->host_ns_num;
	return t->host_per_message + (int64_t)((ns + t->host_ns_den - 1) / t->host_ns_den);
}

static inline int64_t model_work(const struct ddlemu_model *m, uint32_t port, uint64_t i, int64_t ready, int64_t now)
{
	int64_t dur = model_host_time(&m->head->transport, tx_of(m->f, i)->size);
	int64_t start = model_take(&hop_of(m, port)->host_free, ready, dur);
	model_distort(m->f, i, start, ready, now);
	return start + dur;
}

static inline int64_t model_hand_over(const struct ddlemu_model *m, const struct ddlemu_segment *s, int64_t now)
{
	struct ddlemu_out *o = out_of(m->f, s->msg);
	if (o->due == DDLEMU_NEVER) {
		o->due = model_work(m, m->path.n - 1, s->msg, max64(s->due, m->f->handed), now);
		m->f->handed = o->due;
		m->f->now.due_count = s->msg + 1;
	}
	return o->due;
}

// model_ready is when the sender's host is done with message i.
static inline int64_t model_ready(const struct ddlemu_model *m, uint64_t i)
{
	return model_has_host(m) ? out_of(m->f, i)->ready : tx_of(m->f, i)->posted;
}

// --- transport.go

static inline bool model_rdma(const struct ddlemu_model *m) { return m->head->transport.kind == DDLEMU_RDMA; }

static inline bool model_go_back_n(const struct ddlemu_model *m)
{
	return model_rdma(m) && !m->head->transport.selective_repeat;
}

static inline int64_t model_reverse_latency(const struct ddlemu_model *m)
{
	int64_t t = 0;
	for (uint32_t i = 0; i < m->path.reverse_n; i++)
		t += params_of(m, &m->hops[m->path.reverse[i]])->latency;
	return t;
}

static inline int64_t model_round_trip(const struct ddlemu_model *m)
{
	int64_t t = model_reverse_latency(m);
	for (uint32_t i = 0; i < m->path.n; i++)
		t += params_of(m, hop_of(m, i))->latency;
	return max64(t, 1);
}

static inline struct ddlemu_segment *model_covering(struct ddlemu_flow *f, uint64_t y, uint64_t *cursor)
{
	*cursor = umax64(*cursor, f->oldest);
	while (*cursor < f->at[0] && seg_of(f, *cursor)->end < y)
		++*cursor;
	return *cursor == f->at[0] ? NULL : seg_of(f, *cursor);
}

static inline int64_t model_acked(const struct ddlemu_model *m, uint64_t y, uint64_t *cursor)
{
	if (y <= m->f->forgot)
		return 0;
	struct ddlemu_segment *s = model_covering(m->f, y, cursor);
	if (s == NULL || s->due == DDLEMU_NEVER)
		return DDLEMU_NEVER;
	return s->due + model_reverse_latency(m);
}

static inline int64_t model_known(const struct ddlemu_model *m, const struct ddlemu_segment *s)
{
	if (s->msg >= m->f->now.seen_recvd)
		return DDLEMU_NEVER;
	return max64(s->due, rx_of(m->f, s->msg)->posted) + model_reverse_latency(m);
}

static inline int64_t model_read(const struct ddlemu_model *m, uint64_t y)
{
	struct ddlemu_flow *f = m->f;
	if (y <= f->forgot)
		return 0;
	struct ddlemu_segment *s = model_covering(f, y, &f->gate_read);
	if (s == NULL || s->due == DDLEMU_NEVER)
		return DDLEMU_NEVER;
	return model_known(m, s);
}

static inline int64_t model_gate(const struct ddlemu_model *m, uint64_t end)
{
	struct ddlemu_flow *f = m->f;
	const struct ddlemu_transport *t = &m->head->transport;
	if (t->kind == DDLEMU_RDMA) {
		if (f->cur >= f->now.seen_recvd)
			return DDLEMU_NEVER;
		return rx_of(f, f->cur)->posted + model_reverse_latency(m);
	}
	int64_t ready = 0;
	if (end > t->send_buffer)
		ready = model_acked(m, end - t->send_buffer, &f->gate_ack);
	if (end > t->window && ready != DDLEMU_NEVER)
		ready = max64(ready, model_read(m, end - t->window));
	return ready;
}

static inline void model_settle(const struct ddlemu_model *m)
{
	struct ddlemu_flow *f = m->f;
	const struct ddlemu_transport *t = &m->head->transport;
	uint64_t n = f->now.sent_count;
	while (t->kind == DDLEMU_TCP && n < f->known) {
		struct ddlemu_tx *x = tx_of(f, n);
		int64_t at = 0;
		if (x->end > t->send_buffer)
			at = model_acked(m, x->end - t->send_buffer, &f->sent_ack);
		if (at == DDLEMU_NEVER)
			break;
		out_of(f, n)->sent = max64(model_ready(m, n), at);
		n++;
	}
	f->now.sent_count = n;
}

static inline bool model_matters(const struct ddlemu_model *m, const struct ddlemu_segment *s)
{
	struct ddlemu_flow *f = m->f;
	const struct ddlemu_transport *t = &m->head->transport;
	uint64_t cut = f->tail + 1;
	if (f->cur < f->known) {
		struct ddlemu_tx *x = tx_of(f, f->cur);
		cut = x->end - x->size + f->off + 1;
	}
	int64_t ack = s->due + model_reverse_latency(m);
	if (s->end + t->send_buffer >= cut && ack > f->left)
		return true;
	uint64_t end = f->tail;
	int64_t posted = f->last_posted;
	if (f->now.sent_count < f->known) {
		end = tx_of(f, f->now.sent_count)->end;
		posted = tx_of(f, f->now.sent_count)->posted;
	}
	if (s->end + t->send_buffer >= end && ack > posted)
		return true;
	if (s->end + t->window < cut)
		return false;
	return model_known(m, s) > f->left;
}

// --- congestion.go

enum { SEGMENT_LOST = 1, SEGMENT_TIMEOUT = 2, SEGMENT_MARKED = 4, SEGMENT_GONE = 8 };

#define DDLEMU_INITIAL_WINDOW 10
#define DDLEMU_LEAST_WINDOW 2
#define DDLEMU_WINDOW_PARTS 16
#define DDLEMU_MAX_BACKOFF 6
#define DDLEMU_MAX_WINDOW (1ull << 41)
#define DDLEMU_MAX_CUBIC_TIME (1 << 17)
#define DDLEMU_MAX_SEGMENT (64u << 10)

static inline bool model_congested(const struct ddlemu_model *m)
{
	return m->head->transport.congestion != 0 && m->head->transport.kind == DDLEMU_TCP;
}

static inline uint64_t model_mss(const struct ddlemu_model *m) { return params_of(m, hop_of(m, 0))->payload; }

// model_window is the size in 2^-10 bytes: what a peer may have written there is no divisor.
static inline uint64_t model_window(const struct ddlemu_model *m)
{
	return umax64(__atomic_load_n(&m->f->window.size, __ATOMIC_RELAXED), 1 << 10);
}

static inline int64_t model_slot(const struct ddlemu_model *m)
{
	struct ddlemu_flow *f = m->f;
	if (f->at[0] < DDLEMU_MAX_SEGMENTS)
		return 0;
	struct ddlemu_segment *s = seg_of(f, f->at[0]);
	return s->due == DDLEMU_NEVER ? DDLEMU_NEVER : s->due + model_reverse_latency(m);
}

static inline void model_forget(struct ddlemu_flow *f)
{
	f->forgot = seg_of(f, f->oldest)->end;
	f->oldest++;
}

static inline void model_make_room(const struct ddlemu_model *m)
{
	struct ddlemu_flow *f = m->f;
	if (f->at[0] - f->oldest == DDLEMU_MAX_SEGMENTS && f->oldest < f->arrived_segs && f->oldest < f->window.next)
		model_forget(f);
}

static inline uint64_t model_cube_root(uint64_t x)
{
	uint64_t y = 0;
	for (int s = 63; s >= 0; s -= 3) {
		y *= 2;
		uint64_t b = 3 * y * (y + 1) + 1;
		if (x >> s >= b) {
			x -= b << s;
			y++;
		}
	}
	return y;
}

static inline uint64_t model_curve(const struct ddlemu_window *w, int64_t t, uint64_t mss)
{
	uint64_t u = (uint64_t)min64(max64(t, -t), DDLEMU_MAX_CUBIC_TIME);
	uint64_t d = ((u * u * u >> 10) * mss * 2 / 5) >> 10;
	return t < 0 ? w->origin - umin64(w->origin, d) : w->origin + d;
}

static inline void model_cubic(const struct ddlemu_model *m, uint64_t n, int64_t at)
{
	struct ddlemu_window *w = &m->f->window;
	uint64_t mss = model_mss(m), size = model_window(m);
	int64_t tick = max64(m->head->transport.second >> 10, 1);
	if (w->epoch == 0) {
		w->epoch = at;
		w->middle = 0;
		w->estimate = size;
		if (w->origin > size)
			w->middle = (int64_t)model_cube_root(((w->origin - size) * 5 << 19) / mss);
		else
			w->origin = size;
	}
	if (w->estimate < w->prior)
		w->estimate += (mss * n << 20) / size * 9 / 17;
	else
		w->estimate += (mss * n << 20) / size;
	int64_t now = (at - w->epoch) / tick;
	if (model_curve(w, now - w->middle, mss) < w->estimate) {
		w->size = umax64(size, w->estimate);
		return;
	}
	uint64_t target = model_curve(w, (at - w->epoch + model_round_trip(m)) / tick - w->middle, mss);
	target = umin64(umax64(target, size), size + size / 2);
	w->size = size + (target - size) * n / (size >> 10);
}

static inline void model_grow(const struct ddlemu_model *m, uint64_t n, int64_t at)
{
	struct ddlemu_window *w = &m->f->window;
	uint64_t size = model_window(m);
	if (size < w->threshold)
		w->size = size + (n << 10);
	else if (m->head->transport.congestion != DDLEMU_CUBIC)
		w->size = size + (model_mss(m) * n << 20) / size;
	else
		model_cubic(m, n, at);
	w->size = umin64(w->size, DDLEMU_MAX_WINDOW);
}

static inline void model_reduce(const struct ddlemu_model *m, uint64_t offset)
{
	struct ddlemu_window *w = &m->f->window;
	uint64_t size = w->size, less = m->head->transport.congestion == DDLEMU_CUBIC ? size * 7 / 10 : size / 2;
	w->prior = w->origin = size;
	w->epoch = 0;
	w->threshold = umax64(less, DDLEMU_LEAST_WINDOW * model_mss(m) << 10);
	w->size = w->threshold;
	w->recover = offset;
}

static inline void model_timeout(const struct ddlemu_model *m, uint64_t offset)
{
	struct ddlemu_window *w = &m->f->window;
	w->size = model_mss(m) << 10;
	w->epoch = 0;
	w->recover = offset;
	w->last_ack = max64(w->last_ack, w->timer);
	w->timer = 0;
}

static inline void model_acknowledge(const struct ddlemu_model *m, uint64_t offset, int64_t at)
{
	struct ddlemu_window *w = &m->f->window;
	struct ddlemu_segment *s = seg_of(m->f, w->next);
	w->next++;
	uint64_t n = s->end - w->acked;
	w->acked = s->end;
	w->last_ack = max64(w->last_ack, at);
	w->riding -= umin64(w->riding, s->rides * model_mss(m));
	if (s->end <= w->recover)
		return;
	if (s->flags & (SEGMENT_LOST | SEGMENT_MARKED)) {
		model_reduce(m, offset);
		if (s->flags & SEGMENT_TIMEOUT)
			w->timer = at + m->head->transport.rto;
	} else if (w->limited) {
		model_grow(m, n, at);
	} else {
		w->epoch = 0;
	}
}

static inline int64_t model_open(const struct ddlemu_model *m, uint64_t offset, uint64_t n, int64_t ready, int64_t by)
{
	struct ddlemu_flow *f = m->f;
	struct ddlemu_window *w = &f->window;
	if (w->size == 0) {
		w->size = DDLEMU_INITIAL_WINDOW * model_mss(m) << 10;
		w->threshold = DDLEMU_MAX_WINDOW;
	}
	for (;;) {
		bool full = w->acked < offset && offset - w->acked + n + w->riding > w->size >> 10;
		int64_t at = DDLEMU_NEVER;
		if (w->next < f->at[0]) {
			struct ddlemu_segment *s = seg_of(f, w->next);
			if (s->due != DDLEMU_NEVER)
				at = s->came + model_reverse_latency(m);
			else if (full)
				return DDLEMU_NEVER;
		}
		bool timer = w->timer != 0 && w->timer <= at;
		if (timer)
			at = w->timer;
		if ((!full && at > by) || at == DDLEMU_NEVER)
			return max64(ready, w->last_ack);
		if (timer)
			model_timeout(m, offset);
		else
			model_acknowledge(m, offset, at);
	}
}

static inline void model_leave(const struct ddlemu_model *m, uint64_t offset)
{
	struct ddlemu_window *w = &m->f->window;
	uint64_t mss = model_mss(m), size = w->size >> 10;
	w->piece = (uint32_t)umin64(umax64(size / DDLEMU_WINDOW_PARTS / mss, 1) * mss, DDLEMU_MAX_SEGMENT);
	uint64_t flight = offset - w->acked + w->riding;
	w->limited = flight + w->piece > size || (w->size < w->threshold && 2 * flight > size);
}

static inline uint32_t model_repay(const struct ddlemu_model *m, uint64_t offset, uint32_t packets)
{
	struct ddlemu_window *w = &m->f->window;
	if (w->acked >= offset)
		w->debt = 0;
	uint64_t n = umin64(w->debt, packets);
	w->debt -= n;
	w->riding += n * model_mss(m);
	return (uint32_t)n;
}

static inline void model_release(const struct ddlemu_model *m, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = m->f;
	while (f->oldest < f->arrived_segs) {
		struct ddlemu_segment *s = seg_of(f, f->oldest);
		bool unseen = model_congested(m) && f->oldest >= f->window.next;
		if (!model_rdma(m) && (unseen || model_matters(m, s))) {
			int64_t known = model_known(m, s);
			if (f->known - s->msg < DDLEMU_MAX_MESSAGES / 2 || known == DDLEMU_NEVER)
				return;
			if (now < known) {
				*next = min64(*next, known);
				return;
			}
			if (unseen)
				model_acknowledge(m, seg_of(f, f->at[0] - 1)->end, s->came + model_reverse_latency(m));
		}
		model_forget(f);
	}
}

static inline int64_t model_detection(const struct ddlemu_model *m, bool tail)
{
	if (!tail)
		return model_round_trip(m);
	if (!model_rdma(m))
		return min64(m->head->transport.rto, 2 * model_round_trip(m));
	return m->head->transport.rto;
}

static inline bool model_lost(
	const struct ddlemu_model *m, uint32_t i, const struct ddlemu_params *p, uint32_t hop, uint64_t counter)
{
	struct ddlemu_flow *f = m->f;
	uint64_t loss = p->loss_p;
	if (p->good_to_bad != 0) {
		uint64_t change = p->good_to_bad;
		if (f->bad >> i & 1) {
			loss = p->loss_bad_p;
			change = p->bad_to_good;
		}
		if (model_draw(m->head->seed, hop, DRAW_STATE, f->id, counter) < change)
			f->bad ^= 1u << i;
	}
	return model_draw(m->head->seed, hop, DRAW_LOSS, f->id, counter) < loss;
}

// What losses make of a segment: link's fate.
struct ddlemu_fate {
	uint32_t through, again, lossy;
	bool cut;
	int64_t delay;
	uint32_t flags;
};

static inline bool model_any_loss(const struct ddlemu_params *p) { return (p->loss_p | p->good_to_bad) != 0; }

static inline bool model_lossy(const struct ddlemu_model *m)
{
	for (uint32_t i = 0; i < m->path.n; i++)
		if (model_any_loss(params_of(m, hop_of(m, i))))
			return true;
	return false;
}

static inline uint64_t model_counter(const struct ddlemu_model *m, uint64_t k, uint32_t attempt)
{
	return ((m->f->packets + k) << 10) + attempt;
}

static inline bool model_loses(const struct ddlemu_model *m, uint64_t k, uint32_t attempt, struct ddlemu_fate *l)
{
	for (uint32_t i = 0; i < m->path.n; i++) {
		struct ddlemu_hop *h = hop_of(m, i);
		const struct ddlemu_params *p = params_of(m, h);
		if (model_any_loss(p) && model_lost(m, i, p, h->id, model_counter(m, k, attempt))) {
			add64(&h->drops, 1);
			l->lossy = l->lossy > i ? l->lossy : i;
			return true;
		}
	}
	return false;
}

static inline void model_waste(const struct ddlemu_model *m, uint64_t k, int64_t delay)
{
	struct ddlemu_flow *f = m->f;
	const struct ddlemu_params *first = params_of(m, hop_of(m, 0));
	uint64_t n = (tx_of(f, f->cur)->size - f->off) / first->payload;
	int64_t packet = model_serialise(first, first->payload);
	n -= umin64(n, k);
	if (packet > 0)
		n = umin64(n, (uint64_t)(delay / packet));
	n = umin64(n, DDLEMU_MAX_WASTED);
	for (uint32_t i = 0; i < m->path.n; i++) {
		struct ddlemu_hop *h = hop_of(m, i);
		const struct ddlemu_params *p = params_of(m, h);
		for (uint64_t j = 0; p->good_to_bad != 0 && j < n; j++)
			model_lost(m, i, p, h->id, model_counter(m, k + j, f->attempt));
	}
}

static inline int64_t model_recovery(const struct ddlemu_model *m, uint32_t round, bool tail, uint32_t *flags)
{
	if (!model_congested(m))
		return model_detection(m, tail);
	*flags |= SEGMENT_LOST;
	if (round == 0)
		return model_detection(m, tail);
	*flags |= SEGMENT_TIMEOUT;
	return m->head->transport.rto << (round - 1 < DDLEMU_MAX_BACKOFF ? round - 1 : DDLEMU_MAX_BACKOFF);
}

static inline void model_first_loss(const struct ddlemu_model *m, struct ddlemu_fate *l, bool last)
{
	uint32_t n = l->through;
	for (uint32_t k = 0; k < n; k++) {
		if (!model_loses(m, k, m->f->attempt, l))
			continue;
		l->through = k;
		l->cut = true;
		l->again = 1;
		l->delay = model_detection(m, last && k + 1 == n);
		model_waste(m, k + 1ull, l->delay);
		return;
	}
}

static inline struct ddlemu_fate model_losses(const struct ddlemu_model *m, uint32_t n, bool last)
{
	struct ddlemu_fate l = { .through = model_packets(params_of(m, hop_of(m, 0)), n) };
	if (!model_lossy(m))
		return l;
	if (model_go_back_n(m)) {
		model_first_loss(m, &l, last);
		return l;
	}
	for (uint32_t round = 0, left = l.through; round < DDLEMU_MAX_ATTEMPTS; round++) {
		uint32_t lost = 0;
		bool tail = false;
		for (uint32_t k = 0; k < left; k++) {
			tail = model_loses(m, k, round, &l);
			lost += tail;
		}
		if (lost == 0)
			break;
		last = last && tail;
		l.again += lost;
		l.delay += model_recovery(m, round, last, &l.flags);
		left = lost;
	}
	return l;
}

// --- flow.go

static inline int64_t model_spare(const struct ddlemu_model *m)
{
	const struct ddlemu_flow *f = m->f;
	if (model_rdma(m) || model_congested(m) || f->oldest == f->arrived_segs)
		return DDLEMU_NEVER;
	return model_known(m, seg_of(m->f, f->oldest));
}

static inline uint32_t model_segment_size(const struct ddlemu_model *m)
{
	uint64_t n = UINT32_MAX;
	for (uint32_t i = 0; i < m->path.n; i++)
		n = umin64(n, params_of(m, hop_of(m, i))->segment);
	const struct ddlemu_transport *t = &m->head->transport;
	if (t->kind == DDLEMU_TCP) {
		uint64_t packet = params_of(m, hop_of(m, 0))->payload;
		uint64_t packets = umin64((t->send_buffer / (DDLEMU_MAX_SEGMENTS / 2) + packet - 1) / packet,
			DDLEMU_MAX_SEGMENT / packet);
		n = umax64(n, packets * packet);
		n = umin64(n, umin64(umax64(t->send_buffer / 4, 1), umax64(t->window / 4, 1)));
	}
	if (model_congested(m))
		n = umin64(n, umax64(m->f->window.piece, model_mss(m)));
	return (uint32_t)n;
}

static inline bool model_down(const struct ddlemu_model *m)
{
	for (uint32_t i = 0; i < m->path.n; i++)
		if (params_of(m, hop_of(m, i))->down)
			return true;
	return false;
}

static inline void model_pass(
	const struct ddlemu_model *m, struct ddlemu_segment *s, uint32_t i, int64_t start, int64_t dur, int64_t finish)
{
	struct ddlemu_flow *f = m->f;
	struct ddlemu_hop *h = hop_of(m, i);
	const struct ddlemu_params *p = params_of(m, h);
	uint64_t draw = 0;
	if (p->jitter_kind != JITTER_NONE)
		draw = model_draw(m->head->seed, h->id, DRAW_JITTER, f->id, s->number);
	int64_t latency = max64(0, p->latency + model_jitter(m, p, draw));
	s->dur = dur;
	s->ready = max64(start + latency, f->last_ready[i]);
	f->last_ready[i] = s->ready;
	s->finish = finish + latency;
	if (i < m->path.n - 1)
		return;
	int64_t arrived = s->finish + m->head->transport.overhead;
	if (model_congested(m)) {
		f->window.last_came = max64(f->window.last_came, arrived);
		s->came = f->window.last_came;
	}
	s->due = max64(f->last_due, arrived + s->delay);
	f->last_due = s->due;
	if (!s->last)
		return;
	struct ddlemu_out *o = out_of(f, s->msg);
	if (!model_has_host(m)) {
		o->due = s->due;
		f->now.due_count = s->msg + 1;
	}
	if (model_rdma(m)) {
		o->sent = s->due + model_reverse_latency(m);
		f->now.sent_count = s->msg + 1;
	}
}

static inline bool model_full(const struct ddlemu_model *m, uint32_t i, uint32_t n)
{
	if (i >= m->path.n)
		return false;
	const struct ddlemu_params *p = params_of(m, hop_of(m, i));
	if (p->policy != DDLEMU_FAIR || p->queue_ns == 0)
		return false;
	int64_t dur = model_serialise(p, n);
	return (int64_t)(m->f->at[i - 1] - m->f->at[i]) * dur >=
		p->queue_ns + params_of(m, hop_of(m, i - 1))->latency + dur;
}

struct ddlemu_hold {
	int64_t open, charge;
};

static inline struct ddlemu_hold model_held(
	const struct ddlemu_model *m, uint32_t i, uint32_t n, int64_t dur, int64_t ready, int64_t now)
{
	struct ddlemu_hold hold = { ready, 0 };
	struct ddlemu_hop *h = hop_of(m, i), *next = NULL;
	const struct ddlemu_params *p = NULL;
	uint32_t j = i + 1;
	for (; j < m->path.n; j++) {
		next = hop_of(m, j);
		p = params_of(m, next);
		if (!(m->path.private_mask >> j & 1) || model_serialise(p, n) > dur || p->policy == DDLEMU_FAIR)
			break;
	}
	if (j == m->path.n || p->policy != DDLEMU_LOSSLESS || p->queue_ns == 0)
		return hold;
	int64_t room = max64(p->queue_ns, model_serialise(p, n));
	int64_t spoken = __atomic_load_n(&h->buffer, __ATOMIC_RELAXED) - room;
	int64_t free_at = max64(ready, __atomic_load_n(&h->next_free, __ATOMIC_RELAXED));
	if (spoken > free_at) {
		hold.open = spoken;
		add64(&h->pauses, 1);
		__atomic_fetch_add(&h->paused_ns, spoken - free_at, __ATOMIC_RELAXED);
	}
	hold.charge = model_charge(m, next, n, now);
	if (hold.charge > 0 && j + 1 < m->path.n) {
		int64_t behind = model_charge(m, hop_of(m, j + 1), n, now);
		if (behind > 0)
			hold.charge = model_geometric_mean(hold.charge, behind);
	}
	return hold;
}

// model_send lets the next n bytes, which take dur ns, take the first hop from ready on,
// or as much of them as losses leave.
static inline void model_send(struct ddlemu_model *m, uint32_t n, int64_t dur, int64_t ready, int64_t now)
{
	struct ddlemu_flow *f = m->f;
	const struct ddlemu_transport *t = &m->head->transport;
	struct ddlemu_tx *x = tx_of(f, f->cur);
	struct ddlemu_hop *h = hop_of(m, 0);
	const struct ddlemu_params *p = params_of(m, h);
	uint64_t offset = x->end - x->size + f->off;
	bool last = f->off + n == x->size;
	struct ddlemu_fate l = model_losses(m, n, last);
	uint32_t packet = model_packet(p, n), rides = 0;
	if (l.cut) {
		n = l.through * p->payload;
		last = false;
		if (l.through == 0) {
			n = packet;
			l.again = 0;
		}
		dur = model_serialise(p, n);
	}
	if (model_congested(m))
		rides = model_repay(m, offset, l.through);
	if (rides > 0) {
		l.again += rides;
		l.lossy = m->path.n;
	}
	if (l.again > 0)
		dur += l.again * model_serialise(p, packet);
	int64_t occupied = f->off == 0 ? max64(dur, t->gap) : dur;
	struct ddlemu_hold hold = model_held(m, 0, n, occupied, ready, now);
	int64_t start = model_reserve(h, hold.open, occupied);
	model_take(&h->buffer, start, hold.charge);
	model_distort(f, f->cur, start, ready, now);
	model_count(m, 0, p, n, l.again, occupied);
	f->left = start + dur;
	if (!l.cut) {
		f->attempt = 0;
	} else {
		f->attempt++;
		f->left += l.delay;
		l.delay = 0;
		if (l.through == 0)
			return;
	}
	struct ddlemu_segment *s = seg_of(f, f->at[0]);
	*s = (struct ddlemu_segment){
		.end = offset + n,
		.msg = f->cur,
		.n = n,
		.last = last,
		.number = f->number,
		.again = l.again,
		.lossy = l.lossy,
		.rides = rides,
		.flags = l.flags,
		.delay = l.delay,
		.due = DDLEMU_NEVER,
	};
	model_pass(m, s, 0, start, dur, start + dur);
	f->at[0]++;
	f->number++;
	f->packets += l.through;
	f->off += n;
	if (last) {
		f->cur++;
		f->off = 0;
	}
	if (model_congested(m))
		model_leave(m, offset + n);
}

static inline bool model_inject(struct ddlemu_model *m, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = m->f;
	const struct ddlemu_transport *t = &m->head->transport;
	if (f->cur == f->known || f->broken)
		return false;
	struct ddlemu_tx *x = tx_of(f, f->cur);
	uint32_t n = (uint32_t)umin64(x->size - f->off, model_segment_size(m));
	bool first = f->off == 0, congested = model_congested(m);
	uint64_t offset = x->end - x->size + f->off;
	int64_t ready = f->left;
	if (first)
		ready = max64(ready, model_ready(m, f->cur) + t->overhead);
	ready = max64(max64(ready, model_gate(m, offset + n)), f->room[0]);
	if (congested)
		ready = max64(ready, model_slot(m));
	if (ready == DDLEMU_NEVER)
		return false;
	int64_t dur = model_serialise(params_of(m, hop_of(m, 0)), n), occupied = first ? max64(dur, t->gap) : dur;
	if (now < ready - occupied) {
		*next = min64(*next, ready - occupied);
		return false;
	}
	if (model_full(m, 1, n))
		return false;
	if (congested) {
		ready = model_open(m, offset, n, ready, ready - occupied);
		if (ready == DDLEMU_NEVER)
			return false;
		if (now < ready - occupied) {
			*next = min64(*next, ready - occupied);
			return false;
		}
		model_make_room(m);
	}
	if (model_down(m)) {
		if (now - ready > t->down_timeout)
			__atomic_store_n(&f->broken, DDLEMU_LINK_DOWN, __ATOMIC_RELEASE);
		*next = min64(*next, now + DDLEMU_DOWN_POLL);
		return false;
	}
	if (f->at[0] - f->oldest == DDLEMU_MAX_SEGMENTS) {
		f->stalls++;
		int64_t known = model_spare(m);
		if (known == DDLEMU_NEVER)
			return false;
		ready = max64(ready, known);
		if (now < ready - occupied) {
			*next = min64(*next, ready - occupied);
			return false;
		}
		model_forget(f);
	}
	model_send(m, n, dur, ready, now);
	return true;
}

static inline void model_drop(const struct ddlemu_model *m, struct ddlemu_segment *s, int64_t wait)
{
	if (!model_congested(m)) {
		s->ready += model_round_trip(m);
		return;
	}
	s->flags |= SEGMENT_GONE | SEGMENT_LOST;
	s->delay += model_round_trip(m) + wait;
	m->f->window.debt += model_packets(params_of(m, hop_of(m, 0)), s->n) + s->rides;
}

static inline bool model_forward(struct ddlemu_model *m, uint32_t i, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = m->f;
	if (f->at[i] == f->at[i - 1])
		return false;
	struct ddlemu_segment *s = seg_of(f, f->at[i]);
	struct ddlemu_hop *h = hop_of(m, i);
	const struct ddlemu_params *p = params_of(m, h);
	uint32_t again = i <= s->lossy ? s->again : 0;
	int64_t dur = model_serialise(p, s->n);
	if (again > 0)
		dur += again * model_serialise(p, model_packet(p, s->n));
	if (model_full(m, i + 1, s->n))
		return false;
	int64_t ready = max64(s->ready, f->room[i]);
	if (p->policy == DDLEMU_FAIR)
		ready = max64(ready, f->served[i]);
	int64_t at = p->policy == DDLEMU_TAIL_DROP && model_congested(m) ? ready : ready - dur;
	if (now < at) {
		*next = min64(*next, at);
		return false;
	}
	if (s->flags & SEGMENT_GONE) {
		model_pass(m, s, i, s->ready, 0, s->finish);
		f->at[i]++;
		return true;
	}
	bool reserved = !(m->path.private_mask >> i & 1) || dur > s->dur || p->policy == DDLEMU_FAIR;
	struct ddlemu_hold hold = { ready, 0 };
	if (reserved)
		hold = model_held(m, i, s->n, dur, ready, now);
	int64_t start = max64(hold.open, __atomic_load_n(&h->next_free, __ATOMIC_RELAXED));
	int64_t wait = start - s->ready;
	if (p->policy == DDLEMU_TAIL_DROP && p->queue_ns > 0 && wait > p->queue_ns) {
		add64(&h->drops, model_packets(p, s->n) + again);
		model_drop(m, s, wait);
		return true;
	}
	if (model_full(m, i, s->n))
		f->room[i - 1] = start;
	if (p->ecn_ns > 0 && wait > p->ecn_ns) {
		add64(&h->marks, model_packets(p, s->n) + again);
		s->flags |= SEGMENT_MARKED;
	}
	if (reserved) {
		start = model_reserve(h, hold.open, dur);
		model_take(&h->buffer, start, hold.charge);
		model_distort(f, s->msg, start, ready, now);
	}
	f->served[i] = start + dur;
	model_count(m, i, p, s->n, again, dur);
	model_pass(m, s, i, start, dur, max64(s->finish, start + dur));
	f->at[i]++;
	return true;
}

static inline bool model_arrive(const struct ddlemu_model *m, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = m->f;
	model_release(m, now, next);
	if (f->arrived_segs == f->at[m->path.n - 1])
		return false;
	struct ddlemu_segment *s = seg_of(f, f->arrived_segs);
	int64_t due = s->due;
	if (s->last && now >= due && model_has_host(m))
		due = model_hand_over(m, s, now);
	if (now < due) {
		*next = min64(*next, due);
		return false;
	}
	f->now.arrived = s->end;
	f->arrived_segs++;
	return true;
}

// model_learn takes notice of what the ends have posted. A sender that says it has
// more under way than there is room for is broken, and believing it would take years.
static inline void model_learn(const struct ddlemu_model *m, int64_t now)
{
	struct ddlemu_flow *f = m->f;
	uint64_t posted = load64(&f->posted);
	if (posted - f->known > DDLEMU_MAX_MESSAGES) {
		__atomic_store_n(&f->broken, DDLEMU_NONSENSE, __ATOMIC_RELEASE);
		return;
	}
	f->now.seen_posted = posted;
	f->now.seen_recvd = load64(&f->recvd);
	for (; f->known < posted; f->known++) {
		struct ddlemu_tx *x = tx_of(f, f->known);
		*out_of(f, f->known) = (struct ddlemu_out){ .due = DDLEMU_NEVER, .sent = DDLEMU_NEVER };
		if (model_has_host(m))
			out_of(f, f->known)->ready = model_work(m, 0, f->known, x->posted, now);
		f->tail = x->end;
		f->last_posted = x->posted;
	}
}

static inline void model_say_count(uint64_t *said, uint64_t now)
{
	if (*said != now)
		store64(said, now);
}

// model_say tells both ends what they wait for. A message's times are written before
// it is counted.
static inline void model_say(struct ddlemu_flow *f)
{
	model_say_count(&f->said.due_count, f->now.due_count);
	model_say_count(&f->said.sent_count, f->now.sent_count);
	model_say_count(&f->said.arrived, f->now.arrived);
	model_say_count(&f->said.oldest_msg, f->now.oldest_msg);
	model_say_count(&f->said.seen_posted, f->now.seen_posted);
	model_say_count(&f->said.seen_recvd, f->now.seen_recvd);
	if (f->said.next != f->now.next)
		__atomic_store_n(&f->said.next, f->now.next, __ATOMIC_RELAXED);
}

// model_advance takes every step whose time has come, and says before which time
// another call changes nothing, unless something is posted.
static inline void model_advance(struct ddlemu_model *m, int64_t now)
{
	struct ddlemu_flow *f = m->f;
	model_learn(m, now);
	for (bool skip = model_congested(m);; skip = false) {
		int64_t next = DDLEMU_NEVER;
		bool moved = skip || model_inject(m, now, &next);
		for (uint32_t i = 1; i < m->path.n; i++)
			while (model_forward(m, i, now, &next))
				moved = true;
		while (model_arrive(m, now, &next))
			moved = true;
		model_settle(m);
		if (!moved) {
			f->now.oldest_msg = f->oldest < f->at[0] ? seg_of(f, f->oldest)->msg : f->cur;
			f->now.next = next;
			model_say(f);
			model_tell(m);
			return;
		}
	}
}

#endif
