// SPDX-License-Identifier: Apache-2.0
//
// What the programs of this folder share: they map the file of a fabric, and the memory of connections, whose
// descriptors are 3, 4, ....
#ifndef DDLEMU_TESTDATA_FABRIC_H
#define DDLEMU_TESTDATA_FABRIC_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "../open.h"

#define PAGE 4096

#define DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

// now is the time in ns.
static inline int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// map_guarded maps a file between two inaccessible pages.
static inline void *map_guarded(int fd, size_t size)
{
	size = (size + PAGE - 1) / PAGE * PAGE;
	char *p = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED ||
		mmap(p + PAGE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		DIE("map descriptor %d", fd);
	return p + PAGE;
}

// map_region maps the memory of a new connection.
static inline struct ddlemu_region map_region(int fd, size_t size)
{
	struct ddlemu_flow *f = map_guarded(fd, size);
	return (struct ddlemu_region){
		.memory = f, .ring_off = f->ring_off, .ring_size = f->ring_size, .path = f->path
	};
}

// map_state maps the file of a fabric.
static inline void *map_state(const char *path)
{
	int fd = open(path, O_RDWR);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		DIE("open %s", path);
	return map_guarded(fd, (size_t)st.st_size);
}

#endif
