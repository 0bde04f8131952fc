// SPDX-License-Identifier: Apache-2.0
//
// Go reserves a GiB of address space when it starts, before anything of ours can
// return an error, and ends the process if there is none: this says why, before.

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ROOM ((size_t)1536 << 20) // for connections and threads too

__attribute__((constructor(101))) static void check_room(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return;
	void *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		fprintf(stderr,
			"ddlemu: libgoemu.so needs %zu MiB of address space and the limit on it (ulimit -v) leaves less, which ends this process now or later: raise it\n",
			ROOM >> 20);
	else
		munmap(room, ROOM);
}
