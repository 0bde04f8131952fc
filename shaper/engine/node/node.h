// SPDX-License-Identifier: Apache-2.0
//
// What a node costs NCCL, as C sees it: in the mapped file of a fabric, for the executor of the software CUDA. node.go
// says the same in Go, where each field is explained. Times are in ns of the fabric.
#ifndef DDLEMU_NODE_H
#define DDLEMU_NODE_H

#include <math.h>
#include <stdint.h>

// What the actions of a kernel cost.
struct ddlemu_node_cost {
	double step; // ns
	double per_byte; // ns
	double links; // bytes of the links within a node that a byte of a message occupies; 0 as 1
};

// What the actions of sends and receives between nodes cost.
struct ddlemu_send_cost {
	struct ddlemu_node_cost action;
	int64_t per_channel, start; // ns that an action, and the first one of a send, take longer
};

#define DDLEMU_GPU_GROUPS 2

// A PCI switch, or a CPU, of so many GPUs of a node.
struct ddlemu_gpu_group {
	uint32_t gpus, first_hop;
};

struct ddlemu_node_time {
	uint32_t on; // 0: nodes cost nothing, and all other fields are 0
	uint32_t mesh; // 1: a link from each GPU of a node to each other one; 0: one out of each GPU and one into it
	uint32_t gpus; // of a node
	uint32_t first_hop; // of the links within nodes, see fabric.GPULinks
	// Messages to a GPU of another group cross one more link out and one more in, from first_hop on: the links of a
	// PCI switch, and the links of a CPU. 0 GPUs: none.
	struct ddlemu_gpu_group groups[DDLEMU_GPU_GROUPS];
	int64_t kernel, channels, call;
	struct ddlemu_node_cost ll, ll128, simple, send;
	struct ddlemu_send_cost send_net;
	struct ddlemu_node_cost nvls_copy, nvls_head, nvls_tree_copy;
};

// What a copy of NVLS or NVLSTree costs on a channel on which the rank's node has a parent, or not.
static inline const struct ddlemu_node_cost *node_copy_of_nvls(const struct ddlemu_node_time *t, int has_parent)
{
	const struct ddlemu_node_cost *c = &t->nvls_tree_copy;
	const int has_own = c->step != 0 || c->per_byte != 0 || c->links != 0;
	return has_parent && has_own ? c : &t->nvls_copy;
}

// How long a kernel with so many channels takes to begin.
static inline int64_t node_launch(const struct ddlemu_node_time *t, unsigned channels)
{
	return t->kernel + (channels > 1 ? t->channels : 0);
}

// How long an action takes that moves so many bytes, rounded up.
static inline int64_t node_action(const struct ddlemu_node_cost *c, uint64_t bytes)
{
	return (int64_t)ceil(c->step + c->per_byte * (double)bytes);
}

// How many bytes of a link a message of so many bytes occupies, rounded up.
static inline uint64_t node_on_link(const struct ddlemu_node_cost *c, uint64_t bytes)
{
	return c->links == 0 ? bytes : (uint64_t)ceil(c->links * (double)bytes);
}

#endif
