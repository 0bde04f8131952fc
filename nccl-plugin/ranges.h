// SPDX-License-Identifier: Apache-2.0
//
// The ranges of the program, which nvtx.c gets, on their way to the ledger. Any thread may call; each call locks. None
// is on the path of a message.
#ifndef DDLEMU_RANGES_H
#define DDLEMU_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "../shaper/fabric/ledger/record.h"

// ranges_name is the number of a text, which need not end with a 0; 0 if it is empty or there is no place for it.
uint32_t ranges_name(const char *text, size_t size);

// ranges_has_name says whether a number names a text, or is 0.
int ranges_has_name(uint64_t number);

// ranges_begin begins a range, or makes a mark. It returns its depth, and its number in *id.
int ranges_begin(enum ddlemu_range_style style, uint32_t domain, uint32_t name, uint64_t *id);

// ranges_pop ends the innermost range that the calling thread has pushed in a domain. It returns its depth, -1 if there
// is none.
int ranges_pop(uint32_t domain);

// ranges_end ends a started range.
void ranges_end(uint64_t id);

#endif
