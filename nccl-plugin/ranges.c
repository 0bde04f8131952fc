// SPDX-License-Identifier: Apache-2.0
//
// Keeps the ranges that are open, and writes them to the ledger: when they begin, and again when they end if newer
// records have taken the place. What comes before the process has its ledger is kept until then.

#define _GNU_SOURCE
#include "ranges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "glue.h"
#include "purpose.h"

#define MOST_EARLY 65536 // ranges that have ended before there is a ledger
#define NAME_PLACES 65536 // a power of two
#define MOST_NAMES (NAME_PLACES / 2) // so that the table has free places

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards all variables here
static int has_ledger;

// --- names

static char *names; // of the ledger; before there is one, this process's own
static uint64_t early_used = 1, early_lost; // the first name is a 0
static uint64_t *used = &early_used, *lost = &early_lost;
static uint32_t places[NAME_PLACES], known; // numbers of names by their hashes

static void count_lost(void) { __atomic_add_fetch(lost, 1, __ATOMIC_RELAXED); }

static uint32_t hash_of(const char *text, size_t size)
{
	uint32_t h = 2166136261u; // FNV-1a
	for (size_t i = 0; i < size; i++)
		h = (h ^ (uint8_t)text[i]) * 16777619u;
	return h;
}

static int is_name(uint32_t number, const char *text, size_t size)
{
	return strncmp(names + number, text, size) == 0 && names[number + size] == 0;
}

static uint32_t find_or_add(const char *text, size_t size)
{
	if (names == NULL && (names = calloc(1, DDLEMU_LEDGER_NAMES_SIZE)) == NULL)
		return 0;
	uint32_t at = hash_of(text, size) % NAME_PLACES;
	for (; places[at] != 0; at = (at + 1) % NAME_PLACES)
		if (is_name(places[at], text, size))
			return places[at];
	if (known == MOST_NAMES || *used + size + 1 > DDLEMU_LEDGER_NAMES_SIZE)
		return 0;
	known++;
	places[at] = (uint32_t)*used;
	memcpy(names + *used, text, size); // the memory is 0 behind it
	__atomic_store_n(used, *used + size + 1, __ATOMIC_RELEASE);
	return places[at];
}

uint32_t ranges_name(const char *text, size_t size)
{
	if (size == 0)
		return 0;
	pthread_mutex_lock(&lock);
	uint32_t number = find_or_add(text, size);
	if (number == 0)
		count_lost();
	pthread_mutex_unlock(&lock);
	return number;
}

int ranges_has_name(uint64_t number)
{
	return number < __atomic_load_n(__atomic_load_n(&used, __ATOMIC_ACQUIRE), __ATOMIC_ACQUIRE);
}

// --- ranges

struct list {
	struct ddlemu_range_record *at;
	size_t count, capacity;
};

static struct list opened; // in the order of their begins; each with the number of its record, 0: it has none
static struct list early; // that have ended before there was a ledger
static uint64_t begun;

static int add(struct list *l, struct ddlemu_range_record r)
{
	if (l->count == l->capacity) {
		const size_t capacity = l->capacity == 0 ? 64 : 2 * l->capacity;
		void *at = realloc(l->at, capacity * sizeof r);
		if (at == NULL)
			return -1;
		l->at = at;
		l->capacity = capacity;
	}
	l->at[l->count++] = r;
	return 0;
}

static void take_out(struct list *l, size_t i) { memmove(&l->at[i], &l->at[i + 1], (--l->count - i) * sizeof *l->at); }

static uint32_t thread_number(void)
{
	static __thread uint32_t number;
	if (number == 0)
		number = (uint32_t)syscall(SYS_gettid);
	return number;
}

// write_record makes a record of a range.
static void write_record(struct ddlemu_range_record *range)
{
	uint64_t number;
	struct ddlemu_range_record *r = (struct ddlemu_range_record *)ledger_begin(&purposes, &number);
	range->number = r->number; // ledger_end sets it
	*r = *range;
	ledger_end((struct ddlemu_record *)r, number);
	range->number = number;
}

// note_end writes the end of a range.
static void note_end(struct ddlemu_range_record *r)
{
	if (!has_ledger) {
		if (early.count == MOST_EARLY || add(&early, *r) != 0)
			count_lost();
	} else if (ledger_has(&purposes, r->number)) {
		((struct ddlemu_range_record *)ledger_at(&purposes, r->number))->ended = r->ended;
	} else {
		write_record(r);
	}
}

static int64_t now(void) { return has_ledger ? purpose_now() : clock_now(); }

static uint32_t depth_in(uint32_t thread, uint32_t domain)
{
	uint32_t n = 0;
	for (size_t i = 0; i < opened.count; i++) {
		const struct ddlemu_range_record *r = &opened.at[i];
		n += r->thread == thread && r->domain == domain && r->style == DDLEMU_PUSHED;
	}
	return n;
}

int ranges_begin(enum ddlemu_range_style style, uint32_t domain, uint32_t name, uint64_t *id)
{
	struct ddlemu_range_record r = { .kind = DDLEMU_RANGE, .style = style, .domain = domain, .name = name };
	r.thread = thread_number();
	pthread_mutex_lock(&lock);
	r.order = begun++;
	r.begun = now();
	r.depth = depth_in(r.thread, domain);
	if (style == DDLEMU_MARK) {
		r.ended = r.begun;
		note_end(&r);
	} else {
		if (has_ledger)
			write_record(&r);
		if (add(&opened, r) != 0)
			count_lost();
	}
	pthread_mutex_unlock(&lock);
	*id = r.order + 1; // 0 is no range
	return (int)r.depth;
}

// end ends an open range.
static void end(size_t i)
{
	opened.at[i].ended = now();
	note_end(&opened.at[i]);
	take_out(&opened, i);
}

int ranges_pop(uint32_t domain)
{
	const uint32_t thread = thread_number();
	int depth = -1;
	pthread_mutex_lock(&lock);
	for (size_t i = opened.count; i-- > 0;) {
		const struct ddlemu_range_record *r = &opened.at[i];
		if (r->thread == thread && r->domain == domain && r->style == DDLEMU_PUSHED) {
			depth = (int)r->depth;
			end(i);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return depth;
}

void ranges_end(uint64_t id)
{
	pthread_mutex_lock(&lock);
	for (size_t i = opened.count; i-- > 0;) {
		if (opened.at[i].order + 1 == id && opened.at[i].style == DDLEMU_STARTED) {
			end(i);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

// --- the ledger

// take_names moves the names to the ledger.
static void take_names(uint64_t *used_there, char *names_there, uint64_t *lost_there)
{
	if (names != NULL)
		memcpy(names_there, names, early_used);
	free(names);
	*used_there = early_used;
	*lost_there = early_lost;
	names = names_there;
	lost = lost_there;
	__atomic_store_n(&used, used_there, __ATOMIC_RELEASE);
}

// write_early writes a range that was begun before there was a ledger. On a virtual clock, nothing was earlier.
static void write_early(struct ddlemu_range_record *r)
{
	if (purpose_clock != NULL) {
		r->begun = purpose_now();
		r->ended = r->ended == 0 ? 0 : r->begun;
	}
	write_record(r);
}

void net_set_ranges(void *used_there, void *names_there, void *lost_there)
{
	pthread_mutex_lock(&lock);
	take_names(used_there, names_there, lost_there);
	for (size_t i = 0; i < early.count; i++)
		write_early(&early.at[i]);
	for (size_t i = 0; i < opened.count; i++)
		write_early(&opened.at[i]);
	free(early.at);
	early = (struct list){ 0 };
	has_ledger = 1;
	pthread_mutex_unlock(&lock);
}
