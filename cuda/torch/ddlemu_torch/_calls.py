# SPDX-License-Identifier: Apache-2.0
"""Calls of NCCL, and the operations that consist of them. A call keeps its tensors alive."""

import ctypes
from ctypes import c_int, c_void_p
from datetime import timedelta
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

import torch

from ._board import Message
from ._communicator import Communicator
from ._types import ElementType, Reduction

# Its arguments are the communicator, NCCL's handle of it, and the stream.
Call = Callable[[Communicator, c_void_p, c_void_p], None]

_HOST_SCALAR = 1  # ncclScalarHostImmediate


class Operation(NamedTuple):
    """An operation that is to be started."""

    name: str
    calls: Sequence[Call]  # if there are several, they are one group of NCCL
    outputs: Sequence[Any]  # the value of the work's future
    actions: Sequence[Callable[[], None]] = ()  # are called once when it is complete
    timeout: Optional[timedelta] = None
    signature: Tuple[Any, ...] = ()  # is the same on all ranks; empty if not all ranks take part
    # How many elements this rank sends to each rank and receives from each, if ranks differ in that.
    sends: Sequence[int] = ()
    receives: Sequence[int] = ()
    messages: Sequence[Message] = ()  # sends and receives of the program; their members are ranks of the group


def run(calls: Sequence[Call], communicator: Communicator, handle: c_void_p, stream: c_void_p) -> None:
    """Make the calls, as one group of NCCL if there are several."""
    if len(calls) <= 1:
        for call in calls:
            call(communicator, handle, stream)
        return
    library = communicator.library
    communicator.call(library.ncclGroupStart)
    try:
        for call in calls:
            call(communicator, handle, stream)
    finally:
        communicator.call(library.ncclGroupEnd)


def all_reduce(tensor: torch.Tensor, kind: ElementType, op: Reduction) -> Call:
    """ncclAllReduce, in place."""

    def call(c: Communicator, handle: c_void_p, stream: c_void_p) -> None:
        pointer, count = tensor.data_ptr(), tensor.numel() * kind.parts
        _with_operator(c, op, kind, handle, lambda code: c.call(
            c.library.ncclAllReduce, pointer, pointer, count, kind.nccl, code, handle, stream))

    return call


def reduce(source: torch.Tensor, target: torch.Tensor, kind: ElementType, op: Reduction, root: int) -> Call:
    """ncclReduce. Only the root writes to target."""
    return lambda c, handle, stream: _with_operator(c, op, kind, handle, lambda code: c.call(
        c.library.ncclReduce, source.data_ptr(), target.data_ptr(), source.numel() * kind.parts, kind.nccl, code, root,
        handle, stream))


def reduce_scatter(source: torch.Tensor, target: torch.Tensor, kind: ElementType, op: Reduction) -> Call:
    """ncclReduceScatter."""
    return lambda c, handle, stream: _with_operator(c, op, kind, handle, lambda code: c.call(
        c.library.ncclReduceScatter, source.data_ptr(), target.data_ptr(), target.numel() * kind.parts, kind.nccl, code,
        handle, stream))


def broadcast(source: torch.Tensor, target: torch.Tensor, kind: ElementType, root: int) -> Call:
    """ncclBroadcast. Only the root reads source."""
    return lambda c, handle, stream: c.call(
        c.library.ncclBroadcast, source.data_ptr(), target.data_ptr(), target.numel() * kind.parts, kind.nccl, root,
        handle, stream)


def all_gather(source: torch.Tensor, target: torch.Tensor, kind: ElementType) -> Call:
    """ncclAllGather."""
    return lambda c, handle, stream: c.call(
        c.library.ncclAllGather, source.data_ptr(), target.data_ptr(), source.numel() * kind.parts, kind.nccl, handle,
        stream)


def send(tensor: torch.Tensor, kind: ElementType, peer: int) -> Call:
    """ncclSend to a rank of the group."""
    return lambda c, handle, stream: c.call(
        c.library.ncclSend, tensor.data_ptr(), tensor.numel() * kind.parts, kind.nccl, c.rank_of(peer), handle, stream)


def recv(tensor: torch.Tensor, kind: ElementType, peer: int) -> Call:
    """ncclRecv from a rank of the group."""
    return lambda c, handle, stream: c.call(
        c.library.ncclRecv, tensor.data_ptr(), tensor.numel() * kind.parts, kind.nccl, c.rank_of(peer), handle, stream)


def _with_operator(c: Communicator, op: Reduction, kind: ElementType, handle: c_void_p,
                   call: Callable[[int], None]) -> None:
    """Make a call with NCCL's number of a reduction, which for PREMUL_SUM belongs to the communicator."""
    if op.factor is None:
        call(op.nccl)
        return
    code = c_int()
    c.call(c.library.ncclRedOpCreatePreMulSum, ctypes.byref(code), op.factor.data_ptr(), kind.nccl, _HOST_SCALAR, handle)
    try:
        call(code.value)
    finally:
        c.call(c.library.ncclRedOpDestroy, code.value, handle)
