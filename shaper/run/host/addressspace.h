// SPDX-License-Identifier: Apache-2.0
//
// When Go's runtime starts, it reserves a GiB of address space. If there is too little, it ends the process with a
// trace before any code of ours runs. A constructor runs earlier and can say why.
#ifndef DDLEMU_ADDRESS_SPACE_H
#define DDLEMU_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define NEEDED_ADDRESS_SPACE ((size_t)1536 << 20) // with space for connections and threads

// has_address_space says whether the limit leaves enough. If it does not, it prints that `who` needs more.
static inline bool has_address_space(const char *who)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return true;
	void *p = mmap(NULL, NEEDED_ADDRESS_SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		fprintf(stderr,
			"ddlemu: %s needs %zu MiB of address space, and the limit on it (ulimit -v) leaves less: raise it\n",
			who, NEEDED_ADDRESS_SPACE >> 20);
		return false;
	}
	munmap(p, NEEDED_ADDRESS_SPACE);
	return true;
}

#endif
