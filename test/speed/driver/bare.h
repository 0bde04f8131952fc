// SPDX-License-Identifier: Apache-2.0
//
// Plain methods that a transport could use. Each moves messages between two processes and prints the result.
#ifndef DDLEMU_SPEED_BARE_H
#define DDLEMU_SPEED_BARE_H

#include <stddef.h>

// total_of is the number of bytes that a measurement of messages of size bytes moves.
size_t total_of(size_t size);

// Each prints "NAME SIZE BYTES_PER_SECOND".
void bare_ring(size_t size); // copied into a ring and out of it
void bare_memcpy(size_t size); // one copy out of memory that both map
void bare_readv(size_t size); // process_vm_readv
void bare_tcp(size_t size);
void bare_unix(size_t size);

// Prints "bounce 8 NS": one way of a cache line that two processes write alternately.
void bare_bounce(void);

#endif
