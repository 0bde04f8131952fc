# SPDX-License-Identifier: Apache-2.0
"""Random calls, from a seed, on this backend and on gloo with the same inputs. The results must be equal."""

import random
import sys

import torch
import torch.distributed as dist
from job import same, say, start

TYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
OPS = ["SUM", "PRODUCT", "MIN", "MAX"]


class Calls:
    """Makes the same random calls on all ranks. Only the values differ."""

    def __init__(self, seed, rank, size):
        self.common, self.rank, self.size = random.Random(seed), rank, size
        self.seed, self.number = seed, 0
        members = [list(range(size)), [0, size - 1]] + ([[1, size - 2]] if size > 3 else [])
        self.groups = [(m, dist.new_group(m, backend="ddlemu"), dist.new_group(m, backend="gloo")) for m in members]
        self.pending, self.reference = [], False

    def tensor(self, shape, dtype, strided):
        """Return a tensor of small integers, which differs from rank to rank."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.number * 101 + self.rank)
        values = torch.randint(0, 3, (*shape, 2), generator=generator).to(dtype)
        return values[..., 0] if strided and not self.reference else values[..., 0].contiguous()

    def run(self):
        """Make one call on both backends."""
        r, self.number = self.common, self.number + 1
        name = r.choice(["all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "all_to_all_single",
                         "pair", "reduce_scatter", "barrier"])
        size = r.choice([1, 2, 3, 17, 1000, 4099, 70_001])
        shape = r.choice([(size,), (size, 3), (2, size)])
        dtype, op, wait = r.choice(TYPES), r.choice(OPS), r.random() < 0.5
        strided, root, (members, ours, gloo) = r.random() < 0.2, r.random(), r.choice(self.groups)
        root = members[int(root * len(members))]
        order = r.sample(members, 2) if len(members) > 1 else members
        if self.rank not in members:
            return
        arguments = dict(shape=shape, dtype=dtype, op=getattr(dist.ReduceOp, op), strided=strided, root=root,
                         members=members, order=order)
        self.reference = False
        got, work = getattr(self, name)(group=ours, **arguments)
        self.reference = True  # gloo takes no strides
        want, reference = getattr(self, name)(group=gloo, **arguments)
        if reference is not None:
            reference.wait()
        words = (name, shape, dtype, op, members)
        self.pending.append((got, work, want, words))
        if wait:
            self.check()

    def check(self):
        """Wait for all works in a random order, and compare."""
        random.Random(self.number + self.rank).shuffle(self.pending)
        for got, work, want, words in self.pending:
            if work is not None:
                work.wait()
            for a, b in zip(got, want):
                same(a.contiguous(), b.contiguous(), *words, "seed", self.seed, "number", self.number)
        self.pending = []

    def all_reduce(self, shape, dtype, strided, op, group, **_):
        tensor = self.tensor(shape, dtype, strided)
        return [tensor], dist.all_reduce(tensor, op, group=group, async_op=True)

    def broadcast(self, shape, dtype, strided, root, group, **_):
        tensor = self.tensor(shape, dtype, strided)
        return [tensor], dist.broadcast(tensor, root, group=group, async_op=True)

    def reduce(self, shape, dtype, strided, op, root, group, **_):
        tensor = self.tensor(shape, dtype, strided)
        work = dist.reduce(tensor, root, op, group=group, async_op=True)
        return ([tensor] if self.rank == root else []), work

    def all_gather(self, shape, dtype, strided, group, members, **_):
        outputs = [torch.empty(shape, dtype=dtype) for _ in members]
        return outputs, dist.all_gather(outputs, self.tensor(shape, dtype, False), group=group, async_op=True)

    def gather(self, shape, dtype, root, group, members, **_):
        outputs = [torch.empty(shape, dtype=dtype) for _ in members] if self.rank == root else None
        work = dist.gather(self.tensor(shape, dtype, False), outputs, root, group=group, async_op=True)
        return outputs or [], work

    def scatter(self, shape, dtype, root, group, members, **_):
        inputs = [self.tensor(shape, dtype, False) + i for i, _ in enumerate(members)] if self.rank == root else None
        output = torch.empty(shape, dtype=dtype)
        return [output], dist.scatter(output, inputs, root, group=group, async_op=True)

    def all_to_all_single(self, shape, dtype, group, members, **_):
        tensor = self.tensor((len(members) * shape[0], *shape[1:]), dtype, False)
        output = torch.empty_like(tensor)
        return [output], dist.all_to_all_single(output, tensor, group=group, async_op=True)

    def reduce_scatter(self, shape, dtype, op, group, members, **_):
        """gloo has none in older versions: there the reference is an all_reduce."""
        parts = [self.tensor(shape, dtype, False) + i for i, _ in enumerate(members)]
        if not self.reference:
            output = torch.empty(shape, dtype=dtype)
            return [output], dist.reduce_scatter(output, parts, op, group=group, async_op=True)
        for part in parts:
            dist.all_reduce(part, op, group=group)
        return [parts[members.index(self.rank)]], None

    def pair(self, shape, dtype, strided, group, order, **_):
        tensor = self.tensor(shape, dtype, strided)
        if len(order) == 2 and self.rank == order[0]:
            return [], dist.isend(tensor.contiguous(), order[1], group=group)
        if len(order) == 2 and self.rank == order[1]:
            return [tensor], dist.irecv(tensor, order[0], group=group)
        return [], None

    def barrier(self, group, **_):
        return [], dist.barrier(group=group, async_op=True)


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    rank, size = start(timeout=60)
    calls = Calls(seed, rank, size)
    for _ in range(count):
        calls.run()
    calls.check()
    dist.barrier()
    say("ok", count)
    dist.destroy_process_group()


main()
