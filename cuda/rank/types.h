// SPDX-License-Identifier: Apache-2.0
//
// Collectives, data types and reductions: their names in nccl-tests, and NCCL's numbers.

#ifndef DDLEMU_RANK_TYPES_H
#define DDLEMU_RANK_TYPES_H

#include <stddef.h>

// The values of ncclDataType_t.
enum data_type {
	TYPE_INT8 = 0,
	TYPE_UINT8 = 1,
	TYPE_INT32 = 2,
	TYPE_UINT32 = 3,
	TYPE_INT64 = 4,
	TYPE_UINT64 = 5,
	TYPE_HALF = 6,
	TYPE_FLOAT = 7,
	TYPE_DOUBLE = 8,
	TYPE_BFLOAT16 = 9,
};

// The values of ncclRedOp_t.
enum red_op { OP_SUM = 0, OP_PROD = 1, OP_MAX = 2, OP_MIN = 3, OP_AVG = 4 };

// These numbers are not NCCL's. Each is one NCCL call or one group of calls, but for the hypercube, which is several
// groups. Gather and scatter are NCCL's functions from 2.28 on, and groups of the same sends and receives before.
// Alltoall is such a group with each version. The last two are not collectives.
enum collective {
	COLL_ALL_REDUCE,
	COLL_ALL_GATHER,
	COLL_REDUCE_SCATTER,
	COLL_BROADCAST,
	COLL_REDUCE,
	COLL_SENDRECV,
	COLL_ALLTOALL,
	COLL_GATHER,
	COLL_SCATTER,
	COLL_HYPERCUBE,
	COLL_SEND,
	COLL_RECV,
};

// Return the enumerator, or -1 for an unknown name.
int type_by_name(const char *name);
int op_by_name(const char *name);
int coll_by_name(const char *name);

// Returns the bytes of one element; 0 for an unknown type.
size_t type_size(enum data_type type);

// True for half, bfloat16, float and double.
int type_is_float(enum data_type type);

#endif
