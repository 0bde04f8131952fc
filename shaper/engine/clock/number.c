// SPDX-License-Identifier: Apache-2.0

#include "clock.h"
#include "delay.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The numbers are in memory that processes share, so the futexes are not private.
void ddlemu_number_sleep(struct ddlemu_number *n, uint32_t seen, int64_t ns)
{
	struct timespec limit = { ns / 1000000000, ns % 1000000000 };
	// Whoever raises the number changes it first and looks for sleepers then, this is the other way round: so
	// either it sees the sleeper, or the sleeper sees the change.
	__atomic_fetch_add(&n->sleepers, 1, __ATOMIC_SEQ_CST);
	clock_delay();
	syscall(SYS_futex, &n->value, FUTEX_WAIT, seen, &limit, NULL, 0);
	__atomic_fetch_sub(&n->sleepers, 1, __ATOMIC_SEQ_CST);
}

void ddlemu_number_raise(struct ddlemu_number *n)
{
	clock_delay();
	__atomic_fetch_add(&n->value, 1, __ATOMIC_SEQ_CST);
	clock_delay();
	if (__atomic_load_n(&n->sleepers, __ATOMIC_SEQ_CST) != 0)
		syscall(SYS_futex, &n->value, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void ddlemu_node_raise(struct ddlemu_clock_view *v, uint32_t node, enum ddlemu_clock_number number)
{
	ddlemu_number_raise(number_of(v, node, number));
	if (number == DDLEMU_SIGNALS)
		ddlemu_number_raise(number_of(v, node, DDLEMU_EVENTS));
}
