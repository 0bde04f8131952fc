// SPDX-License-Identifier: Apache-2.0
//
// Calls the plugin as two users of NVTX do, with more ranges and names than have a place. Argument: the library.

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../nccl-plugin/abi.h"
#include "../../../nccl-plugin/nvtx_abi.h"

#define CHECK(is) \
	do { \
		if (!(is)) { \
			fprintf(stderr, "line %d: %s\n", __LINE__, #is); \
			exit(1); \
		} \
	} while (0)

static void quiet(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

// A user of NVTX: its variables, as the headers have them.
struct user {
	nvtx_call core[NVTX_CORE_CALLS], domains[NVTX_DOMAIN_CALLS];
	nvtx_call *core_table[NVTX_CORE_CALLS], *domains_table[NVTX_DOMAIN_CALLS];
};
static struct user users[2], *current;

static int of_module(int module, nvtx_call ***table, unsigned *size)
{
	*table = module == NVTX_MODULE_CORE ? current->core_table : current->domains_table;
	*size = module == NVTX_MODULE_CORE ? NVTX_CORE_CALLS : NVTX_DOMAIN_CALLS;
	return module == NVTX_MODULE_CORE || module == NVTX_MODULE_DOMAINS;
}

static const void *get_table(uint32_t id)
{
	static const struct nvtx_tables tables = { sizeof tables, of_module };
	return id == NVTX_TABLE_OF_CALLS ? &tables : NULL;
}

static void attach(void *lib, struct user *u)
{
	for (int i = 1; i < NVTX_CORE_CALLS; i++)
		u->core_table[i] = &u->core[i];
	for (int i = 1; i < NVTX_DOMAIN_CALLS; i++)
		u->domains_table[i] = &u->domains[i];
	int (*initialize)(nvtx_get_table) = (int (*)(nvtx_get_table))dlsym(lib, "InitializeInjectionNvtx2");
	current = u;
	CHECK(initialize != NULL && initialize(get_table) == 1);
}

static int push(struct user *u, const char *name) { return ((int (*)(const char *))u->core[NVTX_RANGE_PUSH_A])(name); }
static int pop(struct user *u) { return ((int (*)(void))u->core[NVTX_RANGE_POP])(); }
static void mark(struct user *u, const char *name) { ((void (*)(const char *))u->core[NVTX_MARK_A])(name); }

static void *domain(struct user *u, const char *name)
{
	return ((void *(*)(const char *))u->domains[NVTX_DOMAIN_CREATE_A])(name);
}

static int push_in(struct user *u, void *domain, const struct nvtx_attributes *a)
{
	return ((int (*)(void *, const struct nvtx_attributes *))u->domains[NVTX_DOMAIN_RANGE_PUSH_EX])(domain, a);
}

// odd makes calls that a correct program does not make.
static void odd(struct user *u)
{
	CHECK(pop(u) == -1);
	((void (*)(uint64_t))u->core[NVTX_RANGE_END])(12345);
	CHECK(push(u, NULL) == 0 && pop(u) == 0);
	struct nvtx_attributes stale = {
		.size = sizeof stale, .text_type = NVTX_REGISTERED, .text.registered = &stale
	};
	CHECK(push_in(u, &stale, &stale) == 0 && pop(u) == 0);
	CHECK(push_in(u, NULL, NULL) == 0 && pop(u) == 0);
}

// The child has no ledger: its ranges go nowhere, and it does not wait for a lock of its parent's.
static void in_child(struct user *u)
{
	const pid_t child = fork();
	if (child == 0)
		_exit(push(u, "in a child") == NVTX_NO_TRACKING && pop(u) == NVTX_NO_TRACKING ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// pushes makes ranges in a thread, each in one that the thread has begun before.
static void *pushes(void *u)
{
	if (push(u, "outer") != 0)
		return NULL;
	for (int i = 0; i < 20000; i++)
		if (push(u, i % 2 == 0 ? "even" : "odd") != 1 || pop(u) != 1)
			return NULL;
	return pop(u) == 0 ? u : NULL;
}

static void together(struct user *a, struct user *b)
{
	pthread_t threads[4];
	void *result;
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, pushes, i % 2 == 0 ? a : b) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], &result) == 0 && result != NULL);
}

static void *pops(void *u) { return pop(u) == -1 ? u : NULL; }

int main(int argc, char **argv)
{
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	CHECK(lib != NULL);
	struct user *a = &users[0], *b = &users[1];
	attach(lib, a);
	attach(lib, b);
	CHECK(push(a, "early and long") == 0);
	for (int i = 0; i < 65536 + 100; i++) // the last 100 have no place
		mark(a, "early");
	const struct net_v8 *net = dlsym(lib, "ncclNetPlugin_v8");
	CHECK(net != NULL && net->init(quiet) == 0);
	CHECK(push(b, "of another user") == 1); // of the same thread: it is in the other one's range
	CHECK(pop(a) == 1);
	void *nccls = domain(a, "NCCL");
	struct nvtx_attributes text = { .size = sizeof text, .text_type = NVTX_TEXT, .text.text = "NCCL's own" };
	CHECK(nccls != NULL && push_in(a, nccls, &text) == NVTX_NO_TRACKING);
	pthread_t thread;
	void *result;
	CHECK(pthread_create(&thread, NULL, pops, a) == 0 && pthread_join(thread, &result) == 0 && result != NULL);
	in_child(a);
	together(a, b);
	for (int i = 0; i < 1 << 20; i++) // overwrites the record of "early and long"
		mark(a, "many");
	char name[400];
	for (int i = 0; i < 40000; i++) {
		snprintf(name, sizeof name, "name %d", i);
		mark(a, name);
	}
	CHECK(pop(a) == 0);
	odd(a);
	mark(b, "many");
	return 0;
}
