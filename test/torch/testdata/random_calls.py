# SPDX-License-Identifier: Apache-2.0
"""random_calls.py SEED COUNT: random calls on this backend and on gloo with the same inputs. The results must be equal.

Operation, type, size, group, and in which order a rank waits are random. Most calls do not wait for those before them.
"""

import random
import sys

import torch
import torch.distributed as dist
from job import same, say, start

TYPES = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
OPS = ["SUM", "PRODUCT", "MIN", "MAX"]


def as_list(works):
    """Return the works of a call, which returns one, a list or None."""
    return works if isinstance(works, list) else [] if works is None else [works]


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
                         "pair", "batch", "reduce_scatter", "barrier"])
        size = r.choice([1, 2, 3, 17, 1000, 4099, 70_001])
        shape = r.choice([(size,), (size, 3), (2, size)])
        dtype, op, wait = r.choice(TYPES), r.choice(OPS), r.random() < 0.5
        strided, root, (members, ours, gloo) = r.random() < 0.2, r.random(), r.choice(self.groups)
        root = members[int(root * len(members))]
        order = r.sample(members, 2) if len(members) > 1 else members
        batch = [r.sample(members, 2) for _ in range(r.randrange(1, 6))]
        if self.rank not in members:
            return
        arguments = dict(shape=shape, dtype=dtype, op=getattr(dist.ReduceOp, op), strided=strided, root=root,
                         members=members, order=order, batch=batch)
        self.reference = False
        got, works = getattr(self, name)(group=ours, **arguments)
        self.reference = True  # gloo takes no strides, and that of Debian's torch 2.14 no float16: values are small integers
        arguments["dtype"] = torch.float32 if dtype == torch.float16 else dtype
        want, references = getattr(self, name)(group=gloo, **arguments)
        for reference in as_list(references):
            reference.wait()
        words = (name, shape, dtype, op, members)
        self.pending.append((got, as_list(works), want, words))
        if wait:
            self.check()

    def check(self):
        """Wait for all works in a random order, and compare."""
        random.Random(self.number + self.rank).shuffle(self.pending)
        for got, works, want, words in self.pending:
            for work in works:
                work.wait()
            for a, b in zip(got, want):
                same(a.contiguous(), b.contiguous().to(a.dtype), *words, "seed", self.seed, "number", self.number)
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

    def batch(self, shape, dtype, strided, group, batch, **_):
        """Sends and receives of several pairs at once. Between two ranks there may be several, in both directions."""
        received, operations = [], []
        for i, (sender, receiver) in enumerate(batch):
            if self.rank == sender:
                tensor = self.tensor(shape, dtype, strided) + i
                operations.append(dist.P2POp(dist.isend, tensor.contiguous(), receiver, group))
            if self.rank == receiver:
                received.append(self.tensor(shape, dtype, strided))
                operations.append(dist.P2POp(dist.irecv, received[-1], sender, group))
        return received, dist.batch_isend_irecv(operations) if operations else None

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
