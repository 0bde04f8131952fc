// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE // dladdr
#include "glue.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "_cgo_export.h"

static net_logger logger;

void net_set_logger(net_logger log) { __atomic_store_n(&logger, log, __ATOMIC_RELEASE); }

void net_log(int level, const char *text)
{
	net_logger log = __atomic_load_n(&logger, __ATOMIC_ACQUIRE);
	if (log != NULL)
		log(level, level == NET_LOG_WARN ? ~0ul : NET_LOG_INIT_NET, "goemu", 0, "NET/goemu : %s", text);
}

// NCCL may be in any library, or in the program: it is in the one that has the logger.
void *net_open_nccl(void)
{
	Dl_info info;
	net_logger log = __atomic_load_n(&logger, __ATOMIC_ACQUIRE);
	struct link_map *map;
	if (log == NULL || dladdr1((void *)(uintptr_t)log, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
		return NULL;
	// The name of the program itself is "".
	return dlopen(map->l_name[0] == 0 ? NULL : map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

int net_nccl_version(void)
{
	void *library = net_open_nccl();
	if (library == NULL)
		return 0;
	int (*get)(int *) = (int (*)(int *))(uintptr_t)dlsym(library, "ncclGetVersion");
	int version = 0;
	if (get != NULL && get(&version) != 0)
		version = 0;
	dlclose(library);
	return version;
}

int net_secure(void) { return getauxval(AT_SECURE) != 0; }
const char *net_getenv(const char *name) { return net_secure() ? NULL : getenv(name); }
const char *net_environ(int i) { return net_secure() || environ == NULL ? NULL : environ[i]; }

static int records; // of the environment, when this library was loaded

int net_records(void) { return records; }

// Before the constructors of the other files, which ask.
__attribute__((constructor(101))) static void read_records(void)
{
	const char *folder = net_getenv("DDLEMU_RECORD");
	records = folder != NULL && folder[0] != 0;
}

int net_pid(void)
{
	static int pid; // a fork's child makes no calls
	if (pid == 0)
		pid = getpid();
	return pid;
}

const char *net_path(void)
{
	Dl_info info;
	return dladdr((void *)net_path, &info) != 0 ? info.dli_fname : NULL;
}

int net_setenv(const char *name, const char *value) { return setenv(name, value, 1); }

static int exiting;

int net_exiting(void) { return __atomic_load_n(&exiting, __ATOMIC_ACQUIRE); }

static void leave(void)
{
	if (net_forked())
		return;
	__atomic_store_n(&exiting, 1, __ATOMIC_RELEASE);
	netLeave();
}

static int status;

int net_exit_status(void) { return status; }

static void note_status(int given, void *none)
{
	(void)none;
	status = given;
}

int net_at_exit(void)
{
	static int registered;
	if (__atomic_exchange_n(&registered, 1, __ATOMIC_ACQ_REL))
		return 0;
	return atexit(leave) || on_exit(note_status, NULL); // the last function registered is called first
}
