// SPDX-License-Identifier: Apache-2.0
//
// conformance LIB VERSION MODE CASE SEED runs one case and prints one line;
// conformance list prints every case with its modes.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

// NO_WORLD removes the number of ranks from the environment (putenv removes a variable without a value): a process is
// placed by its rank alone, or by DDLEMU_NODE.
#define NO_WORLD "WORLD_SIZE", "DDLEMU_NODES=2", "DDLEMU_GPUS_PER_NODE=1"

static const struct test_case cases[] = {
	{ .name = "vtable", .run = case_vtable },
	{ .name = "properties", .run = case_properties, .env = { "DDLEMU_PROFILE=eth1", "DDLEMU_NICS_PER_NODE=2" } },
	{ .name = "properties-of-the-link",
		.run = case_properties,
		.env = { "DDLEMU_PROFILE=eth1", "DDLEMU_NICS_PER_NODE=2", "DDLEMU_NCCL_LATENCY=link" } },
	{ .name = "connect", .run = case_connect, .together = 1 },
	{ .name = "accept-several", .run = case_accept_several, .together = 1 },
	{ .name = "handle-copied", .run = case_handle, .together = 1 },
	{ .name = "wrong-arguments", .run = case_wrong_arguments, .together = 1 },
	{ .name = "sizes", .run = case_sizes, .together = 1 },
	{ .name = "sizes-tcp", .run = case_sizes, .env = { "DDLEMU_TRANSPORT=tcp" } },
	{ .name = "1-GiB",
		.run = case_gibibyte,
		.first = 12,
		.why = "the datapath is the same: 1 GiB crosses once, with v12",
		.slow = 1,
		.mebibytes = 3072 },
	{ .name = "receive-larger", .run = case_receive_larger, .together = 1 },
	{ .name = "send-larger", .run = case_send_larger, .together = 1 },
	{ .name = "size-refused", .run = case_size_refused, .together = 1 },
	{ .name = "32-outstanding", .run = case_outstanding, .together = 1 },
	{ .name = "requests-written", .run = case_requests_written, .together = 1 },
	{ .name = "test-without-sizes", .run = case_test_without_sizes, .together = 1 },
	{ .name = "order", .run = case_order, .together = 1 },
	{ .name = "nothing-early",
		.run = case_nothing_early,
		.together = 1,
		.env = { "DDLEMU_PROFILE=eth1", "DDLEMU_LAT=20ms" } },
	{ .name = "flush", .run = case_flush },
	{ .name = "interleave", .run = case_interleave, .together = 1 },
	{ .name = "interleave-lossy",
		.run = case_interleave,
		.env = { "DDLEMU_PROFILE=eth10", "DDLEMU_LOSS=0.1%", "DDLEMU_JITTER=20us" } },
	{ .name = "interleave-long", .run = case_interleave_long, .slow = 1 },
	{ .name = "close-in-flight", .run = case_close_in_flight, .together = 1 },
	{ .name = "deregMr-fences", .run = case_dereg_fences, .together = 1 },
	{ .name = "peer-closes", .run = case_peer_closes, .together = 1 },
	{ .name = "descriptors", .run = case_descriptors },
	{ .name = "failed-init", .run = case_failed_init },
	{ .name = "init-again", .run = case_init_again },
	{ .name = "reload", .run = case_reload },
	{ .name = "two-communicators", .run = case_two_communicators },
	{ .name = "split", .run = case_split },
	{ .name = "bootstrap",
		.run = case_bootstrap,
		.together = 1,
		.first = 8,
		.why = "NCCL bootstraps over a net from 2.23 on, which has net API v8" },
	{ .name = "tuner", .run = case_tuner, .never_says = { "another number of nodes", "several ranks" } },
	{ .name = "tuner-nodes",
		.run = case_tuner_nodes,
		.says = "NCCL saw another number of nodes than the fabric has" },
	{ .name = "tuner-no-world",
		.run = case_tuner,
		.env = { NO_WORLD },
		.never_says = { "another number of nodes", "several ranks" } },
	{ .name = "tuner-nodes-no-world",
		.run = case_tuner_nodes,
		.env = { NO_WORLD },
		.says = "NCCL saw another number of nodes than the fabric has" },
	{ .name = "tuner-part-no-world",
		.run = case_tuner_subset,
		.env = { NO_WORLD },
		.never_says = { "another number of nodes", "several ranks" } },
	{ .name = "tuner-ranks", .run = case_tuner_ranks, .says = "a process has several ranks" },
};

static int list(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int mode = ALONE; mode <= (cases[i].together ? TOGETHER : ALONE); mode++)
			printf("%s %s %s\n", cases[i].name, mode == TOGETHER ? "threads" : "alone",
				cases[i].slow ? "slow" : "quick");
	return 0;
}

static const struct test_case *find(const char *name)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (strcmp(cases[i].name, name) == 0)
			return &cases[i];
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	const struct test_case *c = argc == 6 ? find(argv[4]) : NULL;
	if (c == NULL) {
		fprintf(stderr, "usage: conformance LIB VERSION alone|threads CASE SEED, or conformance list\n");
		return 64;
	}
	struct options o = {
		.lib = argv[1],
		.version = atoi(argv[2]),
		.mode = strcmp(argv[3], "threads") == 0 ? TOGETHER : ALONE,
		.seed = strtoull(argv[5], NULL, 10),
	};
	return run_case(c, &o);
}
