// SPDX-License-Identifier: Apache-2.0
//
// What the link engine reads: the parameters of hops and of the transport. They are in a
// fabric's mapped file (shaper/fabric/state/layout.h), or in private memory (network.go). Their
// twins in Go are in params.go, hop.go and transport.go; TestLayouts compares them field
// by field. The eBPF programs use ddlemu_params too.
// Times are nanoseconds of CLOCK_MONOTONIC, already multiplied by the time scale.
#ifndef DDLEMU_LINK_H
#define DDLEMU_LINK_H

#ifndef __bpf__
#include <stdbool.h>
#include <stdint.h>
#endif

#define DDLEMU_MAX_HOPS 8
#define DDLEMU_SEGMENT_BYTES (64 << 10) // the most payload of a segment
#define DDLEMU_JITTER_TABLE 4096 // entries of a table of quantiles
#define DDLEMU_JITTER_TABLES 3 // normal, pareto, the user's
#define DDLEMU_STATED 15 // size of link.Spec in 64-bit words

enum ddlemu_transport_kind { DDLEMU_TCP, DDLEMU_RDMA };
enum ddlemu_congestion { DDLEMU_NO_CONGESTION, DDLEMU_RENO, DDLEMU_CUBIC };
enum ddlemu_policy { DDLEMU_LOSSLESS, DDLEMU_TAIL_DROP, DDLEMU_FAIR };
enum ddlemu_jitter_kind { DDLEMU_NO_JITTER, DDLEMU_UNIFORM, DDLEMU_NORMAL, DDLEMU_PARETO, DDLEMU_TABLE };

struct ddlemu_jitter {
	int64_t value; // ns
	uint32_t kind, unused;
};

// Probabilities are thresholds: an event of probability p happens when a 64-bit draw is
// below p * 2^64.
struct ddlemu_loss {
	uint64_t p, bad_p; // of loss in the good and in the bad state
	uint64_t good_to_bad, bad_to_good; // of a change of state, per packet
};

struct ddlemu_queue {
	int64_t limit_ns; // the bytes that may wait, as time at the hop's rate; 0 = no limit
	int64_t ecn_ns; // a packet that waits longer is marked; 0 = never
	uint32_t policy, unused;
};

struct ddlemu_reorder {
	uint64_t p; // probability that a packet overtakes, as a threshold
	int64_t early_ns; // by how much earlier it arrives
};

struct ddlemu_params {
	uint64_t ns_num, ns_den; // b line bytes occupy the hop for ceil(b * ns_num / ns_den) ns; ns_den 0: no time
	int64_t latency;
	struct ddlemu_jitter jitter;
	struct ddlemu_loss loss;
	struct ddlemu_queue queue;
	struct ddlemu_reorder reorder;
	uint32_t payload; // bytes of payload in a full packet
	uint32_t per_packet; // line bytes of a packet that are not payload
	uint32_t framing; // of these, bytes that do not count against the MTU
	uint32_t segment; // payload bytes of a segment
	bool down;
	uint8_t unused[7];
};

#ifndef __bpf__

// A block of parameters, which does not change while a hop has it in force. A change writes a free block, counts
// itself in ddlemu_hop.changes, then publishes the block's number in ddlemu_hop.block. The block that was in force is
// free a while later. So a reader that was stopped meanwhile may have read two changes' words: it copies the block,
// then looks whether number and count are still the same.
struct ddlemu_block {
	struct ddlemu_params params;
	uint64_t stated[DDLEMU_STATED]; // link.Spec, for reading back: Go's alone
	int64_t retired; // when the block was last in use; 0 = never
	int64_t since; // when it was put in force, by the fabric's clock; 0 = when the fabric was made
	int64_t down_since; // the same of the first of the blocks in a row that have the hop down; 0 if the hop is up
};

// A planned change: the block is in force on the hop from a time of the fabric's virtual clock on. The block is
// prepared when the fabric is made, and nothing else uses it.
struct ddlemu_planned_change {
	int64_t time; // ns
	uint32_t hop, block;
};

// What a hop has carried. Each field is 64 bits wide and changed by atomic additions.
struct ddlemu_counters {
	uint64_t bytes; // payload, each transmission counted
	uint64_t line_bytes;
	uint64_t segments; // and packets retransmitted
	uint64_t drops; // packets lost or dropped here
	int64_t busy_ns; // time occupied
	uint64_t ecn_marks; // packets
	uint64_t pauses; // times that back-pressure delayed this hop
	int64_t paused_ns;
};

// One hop. Lines of 64 bytes: the fields read for every segment, the fields flows contend for,
// the counters.
struct ddlemu_hop {
	uint32_t id, kind, src, dst;
	uint32_t block; // atomic: number of the parameters in force
	uint32_t changes; // times that `block` was changed
	uint32_t unused0[10];
	int64_t next_free; // atomic: when the hop is free again
	int64_t host_free; // atomic: when the host worker at this port is free again
	int64_t buffer_free; // atomic: when the buffer behind this hop is free again, see queue.c
	uint64_t unused1[5];
	struct ddlemu_counters counters; // of all jobs
	uint64_t classes[3]; // atomic: payload by flow class; kernel datapath
	uint64_t unused2[5];
};

// What each message costs the emulated hosts at its two ends.
struct ddlemu_host {
	int64_t per_message;
	uint64_t ns_num, ns_den; // b bytes are copied in ceil(b * ns_num / ns_den) ns; ns_den 0: no time
};

struct ddlemu_transport {
	uint32_t kind;
	bool selective_repeat; // rdma: otherwise go-back-N
	uint8_t unused0[3];
	uint64_t send_buffer; // tcp: bytes accepted from the sender and not yet acknowledged
	uint64_t window; // tcp: bytes sent and not yet read by the receiver
	uint32_t congestion;
	uint32_t rails; // rdma: lines that a NIC stands for; 0 as 1
	int64_t second; // one second of the fabric's time
	int64_t rto; // retransmission timeout
	int64_t down_timeout; // a path that is down for longer is an error
	int64_t overhead, gap; // LogGP o and g
	struct ddlemu_host host;
	uint64_t min_stripe; // rdma with several rails: least bytes of a message for each further rail
};

#endif

#endif
