// SPDX-License-Identifier: Apache-2.0
//
// Random delays of all threads that take part in a clock, at the places where their order matters, and a death. Only a
// build with DDLEMU_FAULTS has them, for tests: times must not depend on the delays.
#ifndef DDLEMU_CLOCK_DELAY_H
#define DDLEMU_CLOCK_DELAY_H

#ifdef DDLEMU_FAULTS
// With DDLEMU_FAULT="clock US N", one call in N takes up to US microseconds.
void clock_delay(void);
// With DDLEMU_FAULT="scheduler N", this process is killed in the step of a flow that is its Nth one.
void clock_death(void);
#else
static inline void clock_delay(void) {}
static inline void clock_death(void) {}
#endif

#endif
