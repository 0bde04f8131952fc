# SPDX-License-Identifier: Apache-2.0
"""The operations of c10d, with its names and arguments, as calls of NCCL.

They take NCCL's calls as c10d does for tensors on GPUs: lists of tensors of one size are one AllGather or ReduceScatter
of a flat buffer, uneven ones a group of Broadcasts or Reduces, and gather, scatter and all-to-all are groups of sends and
receives. What a rank sends to itself is copied here.
"""

from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions, BarrierOptions, ReduceOp, ReduceScatterOptions

from . import _calls, _monitored_barrier, _tags
from ._board import Message
from ._buffers import Actions, copy, join, readable, split, updatable, writable
from ._calls import Call, Operation
from ._errors import refuse
from ._exchange import Exchange
from ._group import Group
from ._types import ElementType, Reduction, element_type, reduction, reduction_name, same_type, type_number
from ._work import Work

Tensors = Sequence[torch.Tensor]

# In the words of c10d's own backends, which programs look for.
_OUTPUT_SIZE = "output tensor size must be equal to world_size times input tensor size"
_INPUT_SIZE = "input tensor must be the same size as output size times world size"


class Operations:
    """The operations. The two shells derive from it and set group."""

    group: Group

    # Reductions.

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Optional[Work]:
        """Reduce each tensor over all ranks, in place."""
        return self._allreduce("all_reduce", tensors, opts or AllreduceOptions())

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Optional[Work]:
        """Reduce several tensors."""
        return self._allreduce("all_reduce_coalesced", tensors, opts or AllreduceOptions())

    def allreduce_sparse(self, tensors: Tensors, opts: Any = None) -> Optional[Work]:
        """Refuse: NCCL has no sparse tensors."""
        raise refuse("all_reduce", "NCCL has no sparse tensors: use tensor.to_dense()")

    def _allreduce(self, name: str, tensors: Tensors, opts: Any) -> Optional[Work]:
        same_type(name, tensors)
        calls, actions = [], []  # type: ignore[var-annotated]
        for tensor in tensors:
            kind, op = element_type(name, tensor), reduction(name, opts.reduceOp, tensor)
            if self.group.size == 1:
                _scale(tensor, tensor, op)
                continue
            calls.append(_calls.all_reduce(updatable(tensor, actions), kind, op))
        signature = (name, reduction_name(opts.reduceOp), tuple((t.dtype, t.shape) for t in tensors))
        return self._start(name, calls, tensors, actions, opts, signature)

    def reduce(self, tensors: Tensors, opts: Any) -> Optional[Work]:
        """Reduce a tensor over all ranks. Only the root gets the result."""
        tensor = _only("reduce", tensors)
        kind, op = element_type("reduce", tensor), reduction("reduce", opts.reduceOp, tensor)
        root = self._root("reduce", opts)
        actions: Actions = []
        calls: List[Call] = []
        if self.group.size == 1:
            _scale(tensor, tensor, op)
        else:
            buffer = updatable(tensor, actions) if root == self.group.rank else readable(tensor)
            calls = [_calls.reduce(buffer, buffer, kind, op, root)]
        signature = ("reduce", op.name, tensor.dtype, tensor.shape, root)
        return self._start("reduce", calls, tensors, actions, opts, signature)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Optional[Work]:
        """Reduce a list of tensors, one for each rank. Each rank gets its own."""
        name = "reduce_scatter"
        output, parts = _only(name, outputs), _only(name, inputs)
        self._count(name, "input", parts)
        kind, op = same_type(name, [output, *parts]), reduction(name, opts.reduceOp, output)
        if output.numel() != parts[self.group.rank].numel():
            raise refuse(name, f"the output has {output.numel()} elements, and this rank's input has "
                               f"{parts[self.group.rank].numel()}")
        actions: Actions = []
        calls: List[Call] = []
        sizes = [p.numel() for p in parts]
        if self.group.size == 1:
            _scale(output, parts[0].reshape(output.shape), op)
        elif len(set(sizes)) == 1:
            calls = [_calls.reduce_scatter(join(parts), writable(output, actions), kind, op)]
        else:
            buffer = writable(output, actions)
            calls = [_calls.reduce(readable(p), buffer, kind, op, root) for root, p in enumerate(parts)]
        return self._start(name, calls, outputs, actions, opts, (name, op.name, output.dtype, tuple(sizes)))

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Optional[Work]:
        """Reduce a tensor with a part for each rank. Each rank gets its own part."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts, "reduce_scatter_tensor")

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None,
                                        name: str = "reduce_scatter_tensor_coalesced") -> Optional[Work]:
        """As reduce_scatter_single, for several tensors."""
        opts = opts or ReduceScatterOptions()
        actions: Actions = []
        calls: List[Call] = []
        for output, tensor in zip(outputs, inputs):
            kind, op = same_type(name, [output, tensor]), reduction(name, opts.reduceOp, output)
            self._parts(name, output, tensor, "output", "input", _INPUT_SIZE)
            if self.group.size == 1:
                _scale(output, tensor.reshape(output.shape), op)
                continue
            calls.append(_calls.reduce_scatter(readable(tensor), writable(output, actions), kind, op))
        signature = (name, reduction_name(opts.reduceOp), tuple((t.dtype, t.numel()) for t in outputs))
        return self._start(name, calls, outputs, actions, opts, signature)

    # Operations that move data.

    def broadcast(self, tensors: Tensors, opts: Any) -> Optional[Work]:
        """Copy the root's tensors to all ranks."""
        name, root, actions, calls = "broadcast", self._root("broadcast", opts), [], []  # type: ignore[var-annotated]
        same_type(name, tensors)
        for tensor in tensors:
            kind = element_type(name, tensor)
            buffer = readable(tensor) if root == self.group.rank else writable(tensor, actions)
            calls.append(_calls.broadcast(buffer, buffer, kind, root))
        signature = (name, tuple((t.dtype, t.numel()) for t in tensors), root)
        return self._start(name, calls, tensors, actions, opts, signature)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Optional[Work]:
        """Give all ranks the tensors of all ranks, as a list."""
        name = "all_gather"
        parts, tensor = _only(name, outputs), _only(name, inputs)
        return self._start_allgather(name, [parts], [tensor], outputs, opts)

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Optional[Work]:
        """As allgather, for several tensors. outputs has a list for each rank."""
        name = "all_gather_coalesced"
        self._count(name, "output", outputs)
        return self._start_allgather(name, [list(parts) for parts in zip(*outputs)], inputs, outputs, opts)

    def _start_allgather(self, name: str, lists: Sequence[Tensors], inputs: Tensors, outputs: Any,
                         opts: Any) -> Optional[Work]:
        actions: Actions = []
        calls: List[Call] = []
        for parts, tensor in zip(lists, inputs):
            self._count(name, "output", parts)
            kind = same_type(name, [tensor, *parts])
            if parts[self.group.rank].numel() != tensor.numel():
                raise refuse(name, f"the input has {tensor.numel()} elements, and this rank's output has "
                                   f"{parts[self.group.rank].numel()}")
            if self.group.size == 1:
                copy(parts[0], tensor.reshape(parts[0].shape))
                continue
            source = readable(tensor)
            if len({p.numel() for p in parts}) == 1:
                calls.append(_calls.all_gather(source, split(parts, actions), kind))
            else:
                buffers = [writable(p, actions) for p in parts]
                calls += [_calls.broadcast(source if r == self.group.rank else b, b, kind, r)
                          for r, b in enumerate(buffers)]
        signature = (name, tuple(tuple((p.dtype, p.numel()) for p in parts) for parts in lists))
        return self._start(name, calls, outputs, actions, opts, signature)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Optional[Work]:
        """Give all ranks the tensors of all ranks, in one tensor."""
        return self.all_gather_single_coalesced([output], [tensor], opts, "all_gather_into_tensor")

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None,
                                    name: str = "all_gather_into_tensor_coalesced") -> Optional[Work]:
        """As all_gather_single, for several tensors."""
        actions: Actions = []
        calls: List[Call] = []
        for output, tensor in zip(outputs, inputs):
            kind = same_type(name, [output, tensor])
            self._parts(name, tensor, output, "input", "output", _OUTPUT_SIZE)
            if self.group.size == 1:
                copy(output, tensor.reshape(output.shape))
                continue
            calls.append(_calls.all_gather(readable(tensor), writable(output, actions), kind))
        signature = (name, tuple((t.dtype, t.numel()) for t in inputs))
        return self._start(name, calls, outputs, actions, opts, signature)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Optional[Work]:
        """Give the root the tensors of all ranks."""
        name, root, rank = "gather", self._root("gather", opts), self.group.rank
        tensor = _only(name, inputs)
        kind = element_type(name, tensor)
        actions: Actions = []
        sends, receives = [0] * self.group.size, [0] * self.group.size
        if rank == root:
            parts = _only(name, outputs)
            self._count(name, "output", parts)
            same_type(name, [tensor, *parts])
            copy(parts[rank], tensor.reshape(parts[rank].shape))
            calls = [_calls.recv(writable(p, actions), kind, r) for r, p in enumerate(parts) if r != rank]
            receives = [p.numel() for p in parts]
        else:
            calls = [_calls.send(readable(tensor), kind, root)]
            sends[root] = tensor.numel()
        return self._start(name, calls, outputs, actions, opts, (name, tensor.dtype, root), sends, receives)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Optional[Work]:
        """Give each rank one of the root's tensors."""
        name, root, rank = "scatter", self._root("scatter", opts), self.group.rank
        output = _only(name, outputs)
        kind = element_type(name, output)
        actions: Actions = []
        sends, receives = [0] * self.group.size, [0] * self.group.size
        if rank == root:
            parts = _only(name, inputs)
            self._count(name, "input", parts)
            same_type(name, [output, *parts])
            copy(output, parts[rank].reshape(output.shape))
            calls = [_calls.send(readable(p), kind, r) for r, p in enumerate(parts) if r != rank]
            sends = [p.numel() for p in parts]
        else:
            calls = [_calls.recv(writable(output, actions), kind, root)]
            receives[root] = output.numel()
        return self._start(name, calls, outputs, actions, opts, (name, output.dtype, root), sends, receives)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Optional[Work]:
        """Exchange a tensor between each two ranks."""
        name, rank = "all_to_all", self.group.rank
        self._count(name, "output", outputs)
        self._count(name, "input", inputs)
        kind = same_type(name, [*outputs, *inputs])
        actions: Actions = []
        buffers = [writable(t, actions) for t in outputs]
        sources = [readable(t) for t in inputs]
        copy(buffers[rank], sources[rank].reshape(buffers[rank].shape))
        calls = self._exchange_calls(buffers, sources, kind)
        return self._start(name, calls, outputs, actions, opts, (name, outputs[0].dtype),
                           [t.numel() for t in inputs], [t.numel() for t in outputs])

    def all_to_all_single(self, output: torch.Tensor, tensor: torch.Tensor, output_sizes: Sequence[int],
                          input_sizes: Sequence[int], opts: Any = None) -> Optional[Work]:
        """Exchange parts of a tensor, divided along its first dimension, between each two ranks."""
        name, rank = "all_to_all_single", self.group.rank
        kind = same_type(name, [output, tensor])
        actions: Actions = []
        buffer, source = writable(output, actions), readable(tensor)
        targets = buffer.split(self._split_sizes(name, buffer, output_sizes))
        parts = source.split(self._split_sizes(name, source, input_sizes))
        if targets[rank].numel() != parts[rank].numel():
            raise refuse(name, f"this rank sends itself {parts[rank].numel()} elements and receives "
                               f"{targets[rank].numel()}")
        copy(targets[rank], parts[rank].reshape(targets[rank].shape))
        calls = self._exchange_calls(targets, parts, kind)
        return self._start(name, calls, [output], actions, opts, (name, output.dtype),
                           [t.numel() for t in parts], [t.numel() for t in targets])

    def _exchange_calls(self, outputs: Tensors, inputs: Tensors, kind: ElementType) -> List[Call]:
        """Return the sends and receives of an all-to-all. Empty parts are left out at both ends."""
        calls: List[Call] = []
        for peer in range(self.group.size):
            if peer != self.group.rank and inputs[peer].numel():
                calls.append(_calls.send(inputs[peer], kind, peer))
            if peer != self.group.rank and outputs[peer].numel():
                calls.append(_calls.recv(outputs[peer], kind, peer))
        return calls

    # Between two ranks.

    def send(self, tensors: Tensors, target: int, tag: int) -> Optional[Work]:
        """Send a tensor to a rank of the group."""
        tensor = self._pair("send", tensors, target, tag)
        kind, name = element_type("send", tensor), f"send to rank {self._global(target)}"
        if target == self.group.rank:
            return self.group.start_to_itself(Operation(name, [], tensors), is_send=True)
        call = _calls.send(readable(tensor), kind, target)
        return self.group.start_pair(Operation(name, [call], tensors, messages=[_message(True, target, tensor)]), target)

    def recv(self, tensors: Tensors, source: int, tag: int) -> Optional[Work]:
        """Receive a tensor from a rank of the group."""
        tensor = self._pair("recv", tensors, source, tag)
        actions: Actions = []
        kind = element_type("recv", tensor)
        name = f"recv from rank {self._global(source)}"
        if source == self.group.rank:
            return self.group.start_to_itself(Operation(name, [], tensors), is_send=False)
        call = _calls.recv(writable(tensor, actions), kind, source)
        messages = [_message(False, source, tensor)]
        return self.group.start_pair(Operation(name, [call], tensors, actions, messages=messages), source)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Optional[Work]:
        """Refuse: NCCL has no such operation."""
        raise refuse("recv", "NCCL cannot receive from any source: give the rank of the source")

    def _pair(self, name: str, tensors: Tensors, peer: int, tag: int) -> torch.Tensor:
        if tag != 0:
            _tags.mention(self._exchange_of_job, name, tag)
        if not 0 <= peer < self.group.size:
            raise refuse(name, f"the peer is rank {peer} of a group of {self.group.size}")
        return _only(name, tensors)

    # Barriers and batches.

    def barrier(self, opts: Any = None) -> Optional[Work]:
        """Wait until all ranks have called this: an AllReduce of one element."""
        tensor = torch.zeros(1, dtype=torch.int32)
        op = reduction("barrier", ReduceOp.RedOpType.SUM, tensor)
        call = _calls.all_reduce(tensor, element_type("barrier", tensor), op)
        return self._start("barrier", [call], [tensor], [], opts or BarrierOptions(), ("barrier",))

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait until all ranks have called this. Rank 0 names those that have not come in time."""
        timeout = getattr(opts, "timeout", opts)
        _monitored_barrier.run(self.group, self.group.seconds(timeout), wait_all_ranks)

    def start_coalescing(self, device: Any = None) -> None:
        """Collect the operations that follow."""
        self.group.start_batch()

    def end_coalescing(self, device: Any = None) -> Optional[Work]:
        """Start the collected operations as one group of NCCL."""
        return self.group.end_batch()

    # Helpers.

    def _start(self, name: str, calls: Sequence[Call], outputs: Any, actions: Actions, opts: Any,
               signature: Tuple[Any, ...], sends: Sequence[int] = (), receives: Sequence[int] = ()) -> Optional[Work]:
        """Start the calls. For one rank the outputs are written already."""
        if self.group.size == 1:
            for action in actions:
                action()
            return self.group.finish_alone(name, outputs)
        return self.group.start(Operation(name, calls, outputs, actions, getattr(opts, "timeout", None), signature, sends,
                                          receives))

    def _exchange_of_job(self) -> Exchange:
        """Return the exchange of all ranks of the job. It is that of this group if the group of all has another backend."""
        world = operations_of(dist.group.WORLD) if dist.is_initialized() else None
        return (world.group if world else self.group).exchange

    def _root(self, name: str, opts: Any) -> int:
        root = int(opts.rootRank)
        if not 0 <= root < self.group.size:
            raise refuse(name, f"the root is rank {root} of a group of {self.group.size}")
        return root

    def _global(self, group_rank: int) -> int:
        return self.group.members[group_rank].global_rank

    def _count(self, name: str, side: str, tensors: Sequence[Any]) -> None:
        if len(tensors) != self.group.size:
            raise refuse(name, f"the {side} list has {len(tensors)} tensors, and the group has {self.group.size} ranks")

    def _parts(self, name: str, part: torch.Tensor, whole: torch.Tensor, part_is: str, whole_is: str, rule: str) -> None:
        if whole.numel() != part.numel() * self.group.size:
            raise refuse(name, f"{rule}: the {whole_is} has {whole.numel()} elements, and not {self.group.size} times the "
                               f"{part.numel()} of the {part_is}")

    def _split_sizes(self, name: str, tensor: torch.Tensor, sizes: Sequence[int]) -> List[int]:
        rows = tensor.size(0) if tensor.dim() else 1
        if len(sizes):  # an array of numpy is neither true nor false
            self._count(name, "split", sizes)
            if sum(sizes) != rows:
                raise refuse(name, f"the split sizes {list(sizes)} do not add up to {rows}, the first dimension")
            return [int(size) for size in sizes]
        if rows % self.group.size:
            raise refuse(name, f"the first dimension {rows} is not divisible by the {self.group.size} ranks")
        return [rows // self.group.size] * self.group.size


def operations_of(group: Any) -> Optional[Operations]:
    """Return this backend's operations of a process group, or None if it has another one or this rank is not in it."""
    if isinstance(group, dist.ProcessGroup) and not isinstance(group, Operations) and hasattr(group, "_get_backend"):
        try:
            group = group._get_backend(torch.device("cpu"))
        except RuntimeError:  # it has none for this device
            return None
    return group if isinstance(group, Operations) else None


def _only(name: str, items: Sequence[Any]) -> Any:
    if len(items) != 1:
        raise refuse(name, f"there are {len(items)} tensors or lists per rank, and not one")
    return items[0]


def _message(is_send: bool, peer: int, tensor: torch.Tensor) -> Message:
    """Return what must be the same in a send and its receive. The communicator numbers it."""
    return Message(is_send, peer, 0, type_number(tensor.dtype), tensor.numel(), 0)


def _scale(target: torch.Tensor, source: torch.Tensor, op: Reduction) -> None:
    """Reduce over one rank."""
    copy(target, source if op.factor is None else source * op.factor)
