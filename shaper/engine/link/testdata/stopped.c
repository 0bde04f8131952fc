// SPDX-License-Identifier: Apache-2.0
//
// Stops a call of flow_advance behind each of its instructions, by the processor's trap flag. There a child process
// changes the parameters until the block that was in force at the start is written again, and goes on. With each change
// the message takes the same time: its packet is longer and the rate is higher. With a mixture of two changes it takes
// another time, or a divisor is zero.
//
// usage: stopped free|used: whether that block is free at the end, or in force again.
// It prints how many stops it tried. At the first mixture it says so and exits with status 1.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include "../engine.h"

#define PAYLOAD 1000
#define LATENCY 1000000
#define LINE_TIME 5000 // ns of the packet on the line
#define TRAP_FLAG 0x100ull

static struct ddlemu_hop hop;
static struct ddlemu_block blocks[2];
static struct ddlemu_flow flow;
static const struct ddlemu_transport transport = { .kind = DDLEMU_TCP, .send_buffer = 1 << 20, .window = 1 << 20 };
static bool used;
static long stops;

// write_other writes parameters into the block that is not in force: number k, of a line with this many ns per packet;
// with 0 its divisor is 0, and the latency is longer.
static void write_other(uint32_t k, uint32_t line_time)
{
	blocks[1 - hop.block].params = (struct ddlemu_params){
		.ns_num = line_time,
		.ns_den = line_time == 0 ? 0 : PAYLOAD + k,
		.latency = LATENCY + LINE_TIME - line_time,
		.payload = PAYLOAD,
		.per_packet = k,
		.segment = PAYLOAD,
	};
}

static void publish(void)
{
	__atomic_fetch_add(&hop.changes, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&hop.block, 1 - hop.block, __ATOMIC_SEQ_CST);
}

// on_trap runs behind each instruction. It tries what happens if this process is stopped there for long.
static void on_trap(int signal, siginfo_t *info, void *context)
{
	int status;
	stops++;
	pid_t child = fork();
	if (child < 0)
		_exit(2);
	if (child > 0) {
		if (waitpid(child, &status, 0) == child && status == 0)
			return;
		printf("stopped behind instruction %ld: status %#x\n", stops, status);
		fflush(stdout);
		_exit(1);
	}
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	write_other(1, LINE_TIME);
	publish();
	write_other(2, 0);
	if (used)
		publish();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	struct ddlemu_engine engine = {
		.flow = &flow, .path.n = 1, .transport = &transport, .hops = &hop, .blocks = blocks
	};
	if (argc != 2 || sigaction(SIGTRAP, &action, NULL) != 0)
		return 2;
	used = strcmp(argv[1], "used") == 0;
	write_other(100, LINE_TIME);
	publish();
	flow_post(&flow, PAYLOAD, 0);
	flow_receive(&flow, PAYLOAD, 0);
	pid_t parent = getpid();
	__writeeflags(__readeflags() | TRAP_FLAG);
	flow_advance(&engine, 0);
	__writeeflags(__readeflags() & ~TRAP_FLAG);
	int64_t due = times_at(&flow, 0)->due;
	if (due != LATENCY + LINE_TIME) {
		printf("the message took %lld ns, not %d\n", (long long)due, LATENCY + LINE_TIME);
		return 1;
	}
	if (getpid() == parent)
		printf("%ld stops\n", stops);
	return 0;
}
