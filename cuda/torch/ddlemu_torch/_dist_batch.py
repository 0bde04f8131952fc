# SPDX-License-Identifier: Apache-2.0
"""dist.batch_isend_irecv for this backend: below 2.14 torch starts the operations of CPU tensors one by one.

For tensors on GPUs they are one group of NCCL. Else large messages in both directions would wait for each other.
"""

import functools
from typing import Any, List

import torch.distributed as dist

from ._operations import operations_of


def install() -> None:
    """Let dist.batch_isend_irecv start one group of NCCL for the groups that have this backend."""
    original = dist.batch_isend_irecv

    @functools.wraps(original)
    def batch_isend_irecv(p2p_op_list: List[Any]) -> List[Any]:
        first = p2p_op_list[0] if isinstance(p2p_op_list, list) and p2p_op_list else None
        group = getattr(first, "group", None)
        operations = operations_of(dist.group.WORLD if group is None else group) if isinstance(first, dist.P2POp) else None
        if operations is None:
            return original(p2p_op_list)  # type: ignore[no-any-return]
        dist.distributed_c10d._check_p2p_op_list(p2p_op_list)
        operations.group.start_batch()
        try:
            for operation in p2p_op_list:
                operation.op(operation.tensor, operation.peer, operation.group, operation.tag)
        except BaseException:
            operations.group.drop_batch()
            raise
        return [operations.group.end_batch()]

    dist.batch_isend_irecv = dist.distributed_c10d.batch_isend_irecv = batch_isend_irecv
