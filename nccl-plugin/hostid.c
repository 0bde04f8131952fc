// SPDX-License-Identifier: Apache-2.0
//
// Tells NCCL that ranks on different emulated nodes are on different hosts. This constructor runs when NCCL loads the
// library, before NCCL reads its environment.
//
// It is in C, because a constructor must not wait for Go's runtime to start. So node_of repeats fabric.NodeOf, for the
// cases without an error. test/nccl holds both to one table of cases (TestConstructorAndGoAgreeOnTheNode), and netInit
// refuses to start when Go finds another node (checkHostID).

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shaper/fabric/state/find.h"
#include "glue.h"

#define PREFIX "ddlemu-"
#define UNKNOWN (-1)

// set says whether a variable is set; an empty one counts as unset.
static int set(const char *name)
{
	const char *s = getenv(name);
	return s != NULL && *s != '\0';
}

// number_behind reads a variable that is a number, or the prefix and a number; UNKNOWN if it is neither.
static int number_behind(const char *name, const char *prefix)
{
	const char *s = getenv(name);
	if (s != NULL && strncmp(s, prefix, strlen(prefix)) == 0)
		s += strlen(prefix);
	if (s == NULL || *s < '0' || *s > '9')
		return UNKNOWN;
	char *end;
	errno = 0;
	long v = strtol(s, &end, 10);
	return errno == 0 && *end == '\0' && v <= INT_MAX ? (int)v : UNKNOWN;
}

static int number(const char *name) { return number_behind(name, ""); }

static int first_of(const char *const names[])
{
	for (; *names != NULL; names++)
		if (set(*names))
			return number(*names);
	return UNKNOWN;
}

// fabric_shape reads how many nodes and GPUs per node the fabric has.
static int fabric_shape(int *nodes, int *gpus)
{
	struct ddlemu_header h;
	const int file = ddlemu_read_header(&h);
	if (file < 0)
		return 0;
	close(file); // this process has not joined it yet
	*nodes = (int)h.nodes;
	*gpus = (int)h.gpus_per_node;
	return 1;
}

// node_of returns this process's node on a fabric of this shape, as fabric.NodeOf does where it finds one.
static int node_of(int nodes, int gpus)
{
	static const char *const ranks[] = { "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID",
		"LOCAL_RANK", NULL };
	static const char *const worlds[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS",
		"LOCAL_WORLD_SIZE", NULL };
	if (set("DDLEMU_NODE"))
		return number_behind("DDLEMU_NODE", "node");
	if (number("GROUP_WORLD_SIZE") > 1)
		return number("GROUP_RANK");
	int rank = first_of(ranks), world = first_of(worlds);
	if (rank == UNKNOWN)
		return UNKNOWN;
	if (gpus <= 0 && nodes > 0 && world > 0 && world % nodes == 0)
		gpus = world / nodes;
	return gpus > 0 ? rank / gpus : UNKNOWN;
}

static void set_default(const char *name, const char *value) { setenv(name, value, 0); }

__attribute__((constructor)) static void tell_nccl(void)
{
	if (net_secure() || net_records())
		return; // what only records changes nothing
	const char *id = getenv("NCCL_HOSTID");
	int nodes = 0, gpus = 0;
	if (!fabric_shape(&nodes, &gpus)) {
		// No fabric is up. netInit makes an ad-hoc fabric, by default with a node per rank.
		nodes = number("DDLEMU_NODES");
		gpus = number("DDLEMU_GPUS_PER_NODE");
		if (nodes <= 0 && gpus <= 0)
			gpus = 1;
	}
	int node = node_of(nodes, gpus);
	if (node < 0 || (id != NULL && strncmp(id, PREFIX, sizeof PREFIX - 1) != 0))
		return;
	char text[32];
	snprintf(text, sizeof text, PREFIX "node%d", node);
	setenv("NCCL_HOSTID", text, 1);
	// NVLink between nodes would go around the emulated links. Where a process only asks for NCCL's decisions, it
	// may.
	if (!set("DDLEMU_SOFT_NVLINK_DOMAIN"))
		setenv("NCCL_MNNVL_ENABLE", "0", 1);
	setenv("NCCL_GIN_ENABLE", "0", 1); // so would GPU-initiated networking
	set_default("NCCL_NET_PLUGIN_REF_COUNT", "1"); // 2.27.3 to 2.29.7 forget the plugin's name when they unload it
}
