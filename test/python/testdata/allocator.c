// SPDX-License-Identifier: Apache-2.0
//
// An allocator to preload, in the place of jemalloc or tcmalloc: it allocates from one large mapping and frees nothing.

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA ((size_t)8 << 30) // reserved, not used
#define LEAST 16 // alignment, and space for the size in front

static char *arena;
static size_t used;

size_t allocated(void) { return __atomic_load_n(&used, __ATOMIC_RELAXED); }

__attribute__((constructor)) static void reserve(void)
{
	if (__atomic_load_n(&arena, __ATOMIC_ACQUIRE) != NULL)
		return;
	char *unset = NULL,
	     *p = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		__builtin_trap();
	if (!__atomic_compare_exchange_n(&arena, &unset, p, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		munmap(p, ARENA);
}

static size_t *size_of(void *p) { return (size_t *)((char *)p - LEAST); }

static void *allocate(size_t alignment, size_t size)
{
	reserve();
	if (alignment < LEAST)
		alignment = LEAST;
	if (size > ARENA / 2)
		goto none;
	size_t need = LEAST + alignment + ((size + LEAST - 1) & ~(size_t)(LEAST - 1));
	size_t at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
	if (at + need > ARENA)
		goto none;
	char *p = (char *)(((uintptr_t)arena + at + LEAST + alignment - 1) & ~(uintptr_t)(alignment - 1));
	*size_of(p) = size;
	return p;
none:
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t size) { return allocate(LEAST, size); }
void free(void *p) { (void)p; }
void *memalign(size_t alignment, size_t size) { return allocate(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return allocate(alignment, size); }
void *calloc(size_t n, size_t size) { return size != 0 && n > ARENA / size ? NULL : allocate(LEAST, n * size); }

int posix_memalign(void **p, size_t alignment, size_t size)
{
	*p = allocate(alignment, size);
	return *p == NULL ? ENOMEM : 0;
}

void *realloc(void *old, size_t size)
{
	void *p = allocate(LEAST, size);
	if (p != NULL && old != NULL)
		memcpy(p, old, *size_of(old) < size ? *size_of(old) : size);
	return p;
}
