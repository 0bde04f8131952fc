// SPDX-License-Identifier: Apache-2.0

#include "types.h"

#include <string.h>

struct name {
	const char *name;
	int value;
};

static int find(const struct name *names, size_t count, const char *name)
{
	if (name == NULL)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i].name, name) == 0)
			return names[i].value;
	return -1;
}

int type_by_name(const char *name)
{
	static const struct name names[] = {
		{ "int8", TYPE_INT8 },
		{ "uint8", TYPE_UINT8 },
		{ "int32", TYPE_INT32 },
		{ "uint32", TYPE_UINT32 },
		{ "int64", TYPE_INT64 },
		{ "uint64", TYPE_UINT64 },
		{ "half", TYPE_HALF },
		{ "float", TYPE_FLOAT },
		{ "double", TYPE_DOUBLE },
		{ "bfloat16", TYPE_BFLOAT16 },
	};
	return find(names, sizeof(names) / sizeof(names[0]), name);
}

int op_by_name(const char *name)
{
	static const struct name names[] = {
		{ "sum", OP_SUM },
		{ "prod", OP_PROD },
		{ "max", OP_MAX },
		{ "min", OP_MIN },
		{ "avg", OP_AVG },
	};
	return find(names, sizeof(names) / sizeof(names[0]), name);
}

int coll_by_name(const char *name)
{
	static const struct name names[] = {
		{ "all_reduce", COLL_ALL_REDUCE },
		{ "all_gather", COLL_ALL_GATHER },
		{ "reduce_scatter", COLL_REDUCE_SCATTER },
		{ "broadcast", COLL_BROADCAST },
		{ "reduce", COLL_REDUCE },
		{ "sendrecv", COLL_SENDRECV },
		{ "alltoall", COLL_ALLTOALL },
		{ "gather", COLL_GATHER },
		{ "scatter", COLL_SCATTER },
		{ "hypercube", COLL_HYPERCUBE },
		{ "send", COLL_SEND },
		{ "recv", COLL_RECV },
	};
	return find(names, sizeof(names) / sizeof(names[0]), name);
}

size_t type_size(enum data_type type)
{
	switch (type) {
	case TYPE_INT8:
	case TYPE_UINT8:
		return 1;
	case TYPE_HALF:
	case TYPE_BFLOAT16:
		return 2;
	case TYPE_INT32:
	case TYPE_UINT32:
	case TYPE_FLOAT:
		return 4;
	case TYPE_INT64:
	case TYPE_UINT64:
	case TYPE_DOUBLE:
		return 8;
	}
	return 0;
}

int type_is_float(enum data_type type)
{
	return type == TYPE_HALF || type == TYPE_BFLOAT16 || type == TYPE_FLOAT || type == TYPE_DOUBLE;
}
