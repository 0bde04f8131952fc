// SPDX-License-Identifier: Apache-2.0
//
// speed WHAT [ARGUMENT...]: one measurement of the plugin, or of a plain method for comparison, with two processes.
// Prints lines of a name, a number and a figure; see bare.h and net.h. SPEED_PLUGIN is the path of libgoemu.so.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bare.h"
#include "net.h"

static const struct {
	const char *name;
	void (*run)(size_t);
} by_size[] = {
	{ "ring", bare_ring },
	{ "memcpy", bare_memcpy },
	{ "process_vm_readv", bare_readv },
	{ "tcp", bare_tcp },
	{ "unix", bare_unix },
	{ "plugin", net_throughput },
};

static const struct {
	const char *name;
	void (*run)(void);
} single[] = { { "bounce", bare_bounce }, { "pingpong", net_pingpong }, { "rate", net_rate }, { "calls", net_calls } };

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	for (size_t i = 0; i < sizeof by_size / sizeof by_size[0]; i++)
		if (argc == 3 && strcmp(what, by_size[i].name) == 0)
			return by_size[i].run(strtoull(argv[2], NULL, 10)), 0;
	for (size_t i = 0; i < sizeof single / sizeof single[0]; i++)
		if (argc == 2 && strcmp(what, single[i].name) == 0)
			return single[i].run(), 0;
	if (argc == 3 && strcmp(what, "idle") == 0)
		return net_idle(atoi(argv[2])), 0;
	if (argc == 3 && strcmp(what, "connections") == 0)
		return net_spread(atoi(argv[2])), 0;
	if (argc == 5 && strcmp(what, "flows") == 0)
		return net_flows(atoi(argv[2]), atoi(argv[3]), atof(argv[4])), 0;
	fprintf(stderr,
		"usage: speed ring|memcpy|process_vm_readv|tcp|unix|plugin SIZE, bounce, pingpong, rate, calls, idle N, connections N, or flows LINKS FLOWS SECONDS\n");
	return 2;
}
