// SPDX-License-Identifier: Apache-2.0
//
// NCCL has one profiler per process. If the user has one too (NCCL_PROFILER_PLUGIN), NCCL calls the plugin's, and the
// plugin calls the user's: each with handles and contexts of its own.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "glue.h"
#include "internal/transport/transport.h"
#include "profiler.h"

// The user's library, NULL if there is none.
static void *library;

// The user's profiler, since NCCL's first init; NULL if there is none, or none of a version that fits.
static const struct prof_calls *users;
static int users_version, version_in_use;
static int users_last_mask; // what it last wanted of any communicator

int net_load_profiler(const char *name)
{
	char other[256];
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		snprintf(other, sizeof other, "libnccl-profiler-%s.so", name);
		library = dlopen(other, RTLD_NOW | RTLD_LOCAL);
	}
	return library == NULL ? -1 : 0;
}

// table_of finds version n of the user's profiler.
static const void *table_of(int n)
{
	char name[32];
	snprintf(name, sizeof name, "ncclProfiler_v%d", n);
	return dlsym(library, name);
}

// choose finds the version of the user's profiler that fits what NCCL calls: the same, or from 5 on an older one down
// to 4, whose events are the same but for the group.
static const void *choose(int version)
{
	for (int n = version; n > 0 && library != NULL; n--) {
		const void *table = table_of(n);
		if (table != NULL) {
			users_version = n;
			return table;
		}
		if (n <= 4)
			break;
	}
	return NULL;
}

// --- contexts and handles of both

struct contexts {
	void *ours, *users;
	int users_mask, *mask; // what the user's profiler wants, which it may change; and NCCL's
};

struct handles {
	void *ours, *users;
	struct contexts *of; // NULL: a communicator of another process
};

// Handles are used again in turn. An event's handle is needed until its children have ended; far fewer are under way
// at once.
#define HANDLES (1 << 20)

static struct handles *new_handles(void *ours, void *theirs, struct contexts *of)
{
	static struct handles *all;
	static uint64_t next;
	if (ours == NULL && theirs == NULL)
		return NULL;
	struct handles *h = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
	if (h == NULL) {
		struct handles *made = calloc(HANDLES, sizeof *made);
		if (made == NULL)
			return NULL;
		if (__atomic_compare_exchange_n(&all, &h, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			h = made;
		else
			free(made);
	}
	h += __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % HANDLES;
	*h = (struct handles){ ours, theirs, of };
	return h;
}

// --- the calls

static const struct prof_calls *ours(void) { return &ddlemu_profiler[version_in_use - 1]; }

// NCCL may send for a communicator of another process of the node, whose GPU is beside another NIC (PXN). The events of
// such an operation have the other process's context, which means nothing here, and so has what belongs to them.

// is_foreign says whether an operation is of another process: its parent means nothing here either.
static int is_foreign(uint64_t type, const struct prof_event *e)
{
	return type == PROF_PROXY_OP && e->proxy_op.pid != net_pid();
}

// contexts_of finds the contexts of an event with a context and a parent from NCCL. NULL: the event belongs
// to another process.
static struct contexts *contexts_of(uint64_t type, void *context, const struct prof_event *e)
{
	if (type != PROF_PROXY_STEP)
		return is_foreign(type, e) ? NULL : context;
	const struct handles *parent = e->parent;
	return parent == NULL ? NULL : parent->of;
}

// set_parents gives an event the handles of one of the two profilers. The caller puts NCCL's own back.
static void set_parents(struct prof_event *e, const struct handles *parent, const struct handles *group, int for_users)
{
	e->parent = parent == NULL ? NULL : for_users ? parent->users : parent->ours;
	if (group == NULL)
		return;
	void *of = for_users ? group->users : group->ours;
	void **field = (uint8_t)e->type == PROF_COLL ? &e->coll_v4.group : &e->p2p_v4.group;
	*field = of;
	if (for_users && users_version < 5)
		e->parent = of; // before version 5 the parent is the group
}

// start_both starts an event for the user's profiler and the own one.
static int start_both(uint64_t type, struct contexts *c, void **handle, struct prof_event *e)
{
	const int grouped = version_in_use >= 5 && (type == PROF_COLL || type == PROF_P2P);
	void *parent = e->parent, *group = NULL, *ours_handle = NULL, *users_handle = NULL;
	const struct handles *known = is_foreign(type, e) ? NULL : parent;
	if (grouped)
		group = type == PROF_COLL ? e->coll_v4.group : e->p2p_v4.group;
	int result = DDLEMU_SUCCESS;
	if (type & (uint64_t)ddlemu_profiler_mask()) {
		set_parents(e, known, group, 0);
		result = ours()->start_event(c == NULL ? NULL : c->ours, &ours_handle, e);
	}
	e->parent = parent;
	int wanted = c == NULL ? __atomic_load_n(&users_last_mask, __ATOMIC_RELAXED) : c->users_mask;
	if ((type & (uint64_t)wanted) && (users_version >= 5 || type <= UINT8_MAX)) {
		set_parents(e, known, group, 1);
		result = users->start_event(c == NULL ? NULL : c->users, &users_handle, e);
	}
	e->parent = parent;
	if (grouped)
		*(type == PROF_COLL ? &e->coll_v4.group : &e->p2p_v4.group) = group;
	if (c != NULL) {
		__atomic_store_n(c->mask, ddlemu_profiler_mask() | c->users_mask, __ATOMIC_RELAXED);
		__atomic_store_n(&users_last_mask, c->users_mask, __ATOMIC_RELAXED);
	}
	*handle = new_handles(ours_handle, users_handle, c);
	return result;
}

static int start(void *context, void **handle, struct prof_event *e)
{
	const uint64_t type = version_in_use < 5 ? (uint8_t)e->type : e->type;
	if (users != NULL)
		return start_both(type, contexts_of(type, context, e), handle, e);
	// Of the own profiler's events only collectives and sends need the context.
	struct contexts *c = type == PROF_COLL || type == PROF_P2P ? context : NULL;
	return ours()->start_event(c == NULL ? NULL : c->ours, handle, e);
}

static int stop(void *handle)
{
	if (users == NULL)
		return ours()->stop_event(handle);
	struct handles *h = handle;
	if (h->ours != NULL)
		ours()->stop_event(h->ours);
	return h->users == NULL ? DDLEMU_SUCCESS : users->stop_event(h->users);
}

static int record_state(void *handle, int state, void *args)
{
	if (users == NULL)
		return ours()->record_state(handle, state, args);
	struct handles *h = handle;
	if (h->ours != NULL)
		ours()->record_state(h->ours, state, args);
	return h->users == NULL ? DDLEMU_SUCCESS : users->record_state(h->users, state, args);
}

static int finalize(void *context)
{
	struct contexts *c = context;
	if (c == NULL)
		return DDLEMU_SUCCESS;
	int result = ours()->finalize(c->ours);
	if (users != NULL && c->users != NULL)
		result = users->finalize(c->users);
	free(c);
	return result;
}

// begin makes the contexts of a communicator, and the context of the plugin's own profiler. It returns NULL if the
// ledger is off: then there is nothing to profile.
static struct contexts *begin(int version, void **context, int *mask, uint64_t comm, int ranks, int rank)
{
	*context = NULL;
	*mask = 0;
	struct contexts *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	version_in_use = version;
	ddlemu_profiler_init(&c->ours, comm, ranks, rank);
	if (c->ours == NULL) {
		free(c);
		return NULL;
	}
	c->mask = mask;
	*mask = ddlemu_profiler_mask();
	*context = c;
	return c;
}

// users_table is the user's profiler for what NCCL calls, and makes it the one that gets the events.
static const void *users_table(int version)
{
	char text[160];
	if (library == NULL)
		return NULL;
	const void *table = choose(version);
	if (table == NULL) {
		snprintf(text, sizeof text,
			"the profiler in NCCL_PROFILER_PLUGIN gets no events while a ledger is written: NCCL calls version %d, which it does not have",
			version);
		net_log(NET_LOG_WARN, text);
		return NULL;
	}
	users = (const void *)((const char *)table + 2 * sizeof(void *));
	return table;
}

// join_users takes the result of the init of the user's profiler.
static int join_users(struct contexts *c, int result)
{
	if (result == DDLEMU_SUCCESS)
		*c->mask = ddlemu_profiler_mask() | c->users_mask;
	else
		c->users_mask = 0; // NCCL too goes on without a profiler whose init fails
	return DDLEMU_SUCCESS;
}

static int init_old(int version, void **context, int *mask)
{
	struct contexts *c = begin(version, context, mask, 0, 0, -1);
	const struct profiler_v1 *p = c == NULL ? NULL : users_table(version);
	return p == NULL ? DDLEMU_SUCCESS : join_users(c, p->init(&c->users, &c->users_mask));
}

static int init_v1(void **context, int *mask) { return init_old(1, context, mask); }
static int init_v2(void **context, int *mask) { return init_old(2, context, mask); }
static int init_v3(void **context, int *mask) { return init_old(3, context, mask); }

static int init_new(int version, void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks,
	int rank, net_logger log)
{
	if (net_records())
		net_set_logger(log); // there is no net of ours, which would have done so
	struct contexts *c = begin(version, context, mask, comm, ranks, rank);
	const void *p = c == NULL ? NULL : users_table(version);
	if (p == NULL)
		return DDLEMU_SUCCESS;
	if (users_version == 4)
		return join_users(c,
			((const struct profiler_v4 *)p)
				->init(&c->users, &c->users_mask, name, comm, nodes, ranks, rank, log));
	return join_users(c,
		((const struct profiler_v5 *)p)->init(&c->users, comm, &c->users_mask, name, nodes, ranks, rank, log));
}

static int init_v4(
	void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks, int rank, net_logger log)
{
	return init_new(4, context, mask, name, comm, nodes, ranks, rank, log);
}

static int init_v5(
	void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks, int rank, net_logger log)
{
	return init_new(5, context, mask, name, comm, nodes, ranks, rank, log);
}

static int init_v6(
	void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks, int rank, net_logger log)
{
	return init_new(6, context, mask, name, comm, nodes, ranks, rank, log);
}

#define CALLS(version) \
	.name = "goemu", .init = init_v##version, .start_event = start, .stop_event = stop, \
	.record_state = record_state, .finalize = finalize

const struct profiler_v1 ncclProfiler_v1 = { CALLS(1) };
const struct profiler_v1 ncclProfiler_v2 = { CALLS(2) };
const struct profiler_v1 ncclProfiler_v3 = { CALLS(3) };
const struct profiler_v4 ncclProfiler_v4 = { CALLS(4) };
const struct profiler_v5 ncclProfiler_v5 = { CALLS(5) };
const struct profiler_v5 ncclProfiler_v6 = { CALLS(6) };
