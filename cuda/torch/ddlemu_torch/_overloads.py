# SPDX-License-Identifier: Apache-2.0
"""The forms in which programs call the methods of a group: one tensor instead of a list, values instead of options.

torch.distributed passes lists and options. c10d's own process groups, which are C++, also take the shorter forms, as in
`group.broadcast(tensor, root=0)`.
"""

from datetime import timedelta
from typing import Any, List, Optional, Sequence

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions, AllreduceOptions, BarrierOptions, BroadcastOptions, GatherOptions, ReduceOp, ReduceOptions,
    ReduceScatterOptions, ScatterOptions)

from ._operations import Operations
from ._work import Work


class Overloads(Operations):
    """The operations, in all their forms."""

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None, *, op: Any = None) -> Optional[Work]:
        """Reduce each tensor over all ranks, in place."""
        return super().allreduce(_list(tensors), _options(AllreduceOptions, opts, timeout, op=op))

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None, timeout: Any = None, *,
               root: Optional[int] = None) -> Optional[Work]:
        """Reduce a tensor over all ranks. Only the root gets the result."""
        return super().reduce(_list(tensors), _options(ReduceOptions, opts, timeout, root, op))

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None, *,
                       op: Any = None) -> Optional[Work]:
        """Reduce a list of tensors, one for each rank. Each rank gets its own."""
        options = _options(ReduceScatterOptions, opts, timeout, op=op)
        return super().reduce_scatter(_list(outputs), _lists(inputs), options)

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None, *,
                  root: Optional[int] = None) -> Optional[Work]:
        """Copy the root's tensors to all ranks."""
        return super().broadcast(_list(tensors), _options(BroadcastOptions, opts, timeout, root))

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, *, timeout: Any = None) -> Optional[Work]:
        """Give all ranks the tensors of all ranks, as a list."""
        return super().allgather(_lists(outputs), _list(inputs), _options(AllgatherOptions, opts, timeout))

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None, *,
               root: Optional[int] = None) -> Optional[Work]:
        """Give the root the tensors of all ranks."""
        return super().gather(_lists(outputs), _list(inputs), _options(GatherOptions, opts, timeout, root))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None, *,
                root: Optional[int] = None) -> Optional[Work]:
        """Give each rank one of the root's tensors."""
        return super().scatter(_list(outputs), _lists(inputs), _options(ScatterOptions, opts, timeout, root))

    def barrier(self, opts: Any = None, *, timeout: Any = None) -> Optional[Work]:
        """Wait until all ranks have called this."""
        return super().barrier(_options(BarrierOptions, opts, timeout))


def _list(tensors: Any) -> Sequence[torch.Tensor]:
    """Return a list of tensors, which may be given as one tensor."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _lists(tensors: Sequence[Any]) -> List[Any]:
    """Return a list of lists of tensors, which may be given as its only list."""
    return [tensors] if tensors and isinstance(tensors[0], torch.Tensor) else list(tensors)


def _options(kind: Any, given: Any, timeout: Any = None, root: Optional[int] = None, op: Any = None) -> Any:
    """Return the options of an operation. What is given in their place may be a reduction, a root or a timeout."""
    if isinstance(given, (ReduceOp, ReduceOp.RedOpType)):
        op = given
    elif isinstance(given, int):
        root = given
    elif isinstance(given, timedelta):
        timeout = given
    elif given is not None:
        return given
    options = kind()
    for name, value in (("timeout", timeout), ("rootRank", root), ("reduceOp", op)):
        if value is not None:
            setattr(options, name, value)
    return options
