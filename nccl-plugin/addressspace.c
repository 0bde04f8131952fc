// SPDX-License-Identifier: Apache-2.0
//
// When Go's runtime starts, it reserves a GiB of address space. If there is too little, it ends the process before any
// code of ours runs. This constructor runs earlier and says why.

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define NEEDED ((size_t)1536 << 20) // with space for connections and threads

__attribute__((constructor(101))) static void check_address_space(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return;
	void *p = mmap(NULL, NEEDED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		fprintf(stderr,
			"ddlemu: libgoemu.so needs %zu MiB of address space and the limit on it (ulimit -v) leaves less, which ends this process now or later: raise it\n",
			NEEDED >> 20);
	else
		munmap(p, NEEDED);
}
