// SPDX-License-Identifier: Apache-2.0
//
// Multicast memory: a range of addresses that stands for the memory of several GPUs at once. On a GPU the NVSwitches
// write to all of them, and read their sum or their minimum. Here nothing is mapped at these addresses: the executor
// finds the memory of each GPU by them.
#ifndef DDLEMU_SOFT_EXEC_MULTICAST_H
#define DDLEMU_SOFT_EXEC_MULTICAST_H

#include <cstddef>
#include <functional>
#include <vector>

namespace softexec {

// Returns where the memory of each member begins in this process, always in the same order. Empty: the members are not
// there yet, or no longer. It is called until it has returned members once.
using MemberSource = std::function<std::vector<char *>()>;

// Says that a range is multicast memory, and that it is no longer. Safe from several threads.
void add_multicast(const void *base, size_t size, MemberSource members);
void remove_multicast(const void *base);

// Returns the addresses that an address stands for, one for each member. If it is not multicast memory, that is the
// address itself. Empty: the members are not there.
std::vector<char *> members_of(char *address);

} // namespace softexec

#endif
