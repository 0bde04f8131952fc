// SPDX-License-Identifier: Apache-2.0
//
// The records of a ledger (ledger.h).
#ifndef DDLEMU_LEDGER_RECORD_H
#define DDLEMU_LEDGER_RECORD_H

#include <stdint.h>

#define DDLEMU_UNKNOWN 0xff // a function, algorithm, protocol or type that has no number here

// What a record is about.
enum ddlemu_record_kind {
	DDLEMU_SEND = 1, // a message, noted by the sender
	DDLEMU_RECEIVE = 2, // a message, noted by the receiver
	DDLEMU_TASK = 3, // a collective, or a send or receive of the program
	DDLEMU_OP = 4, // the part of a task that one connection carries
	DDLEMU_KERNEL_TASK =
		5, // a task, as a kernel of the software CUDA knows it: its comm is a number of this process
	DDLEMU_RANGE = 6, // a range of the program, by NVTX
	DDLEMU_KERNEL = 7, // a kernel of NCCL that a stream of the software CUDA ran, or a host function that took time
	DDLEMU_CHANNEL = 8, // a channel of a task's kernel, as NCCL's profiler tells of it
};

// One end of a message.
struct ddlemu_record {
	uint64_t number; // 1 + the records before it; atomic, stored last
	uint32_t kind;
	// Send: the longest time since this thread's post before, for which NCCL did not call although it had requests.
	// Receive: how late the bytes were visible. Both on a real clock only; ns, at most UINT32_MAX.
	uint32_t late;
	uint32_t conn; // place in the table of connections; DDLEMU_LEDGER_MAX_CONNECTIONS: it has none
	uint32_t op; // the lower half of the number of its operation's record; 0: not known
	uint64_t msg; // number in its connection: both ends have the same
	uint64_t size; // bytes; of a receive that has not returned, its capacity
	int64_t posted; // by this end
	// Send: when it is complete in the model. Receive: when the message is due. While it is not returned: when test
	// first reported that the connection has failed, 0: it did not.
	int64_t modelled;
	int64_t returned; // by test; atomic, stored last; 0: it is not returned
};

struct ddlemu_task_record {
	uint64_t number;
	uint32_t kind;
	uint8_t func, algo, proto, datatype; // NCCL's numbers, or DDLEMU_UNKNOWN
	uint64_t comm; // NCCL's hash of the communicator
	uint32_t seq; // of a collective: the calls of this function on this communicator before it
	uint32_t group; // tasks of this process with the same number were planned together; 0: not known
	uint64_t count; // elements
	int32_t peer; // rank in the communicator: of a send or receive the other end, of a collective the root
	int32_t ranks, rank; // of the communicator; 0 and -1 if NCCL does not say
	uint32_t channels;
	int64_t begun; // when NCCL had planned it
};

struct ddlemu_op_record {
	uint64_t number;
	uint32_t kind;
	uint32_t task; // the lower half of the number of its task's record
	int32_t pid; // of the process that has that record
	int32_t rank, peer; // in the communicator
	uint16_t channel, sends;
	uint32_t steps, chunk; // messages; bytes of the largest
	int64_t begun, ended; // by NCCL's progress thread; 0: it has not ended
	uint64_t unused;
};

// How a range was begun.
enum ddlemu_range_style {
	DDLEMU_PUSHED, // ranges of one thread and domain nest
	DDLEMU_STARTED, // they need not nest, and another thread may end it
	DDLEMU_MARK, // it takes no time
};

struct ddlemu_range_record {
	uint64_t number;
	uint32_t kind;
	uint32_t thread; // the kernel's number of the thread that began it
	uint32_t name, domain; // where the names are among the names of the ledger; 0: it has none
	uint32_t style;
	uint32_t depth; // open ranges of its thread and domain around it
	uint64_t order; // ranges of the process that were begun before it
	int64_t begun, ended; // 0: it has not ended
	uint64_t unused;
};

struct ddlemu_kernel_record {
	uint64_t number;
	uint32_t kind;
	uint32_t stream; // number of this process
	// The groups of its tasks: of those that NCCL's profiler reported, and of those that the kernel reported. 0:
	// none. A host function has neither.
	uint32_t group, kernel_group;
	int64_t launched; // by the program; 0: a host function, of which that is not known
	int64_t begun, ended; // 0: not yet
	uint64_t unused[2];
};

struct ddlemu_channel_record {
	uint64_t number;
	uint32_t kind;
	uint32_t task; // the lower half of the number of its task's record
	uint64_t channel;
	int64_t begun, ended; // when NCCL's progress thread has seen that; 0: not yet
	uint64_t gpu_begun, gpu_ended; // by the GPU's clock, ns; 0: NCCL does not say
	uint64_t unused;
};

#endif
