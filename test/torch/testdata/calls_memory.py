# SPDX-License-Identifier: Apache-2.0
"""What calls keep: calls_memory.py CALLS MB [OPERATION ...] makes CALLS calls of each operation, with new tensors in each
call. A rank may grow by MB megabytes meanwhile. A moment later the tensors of the calls must be gone.
"""

import sys
import time
import weakref

import torch
import torch.distributed as dist
from job import check, say, start, version

ELEMENTS = 16_000  # of a large tensor, which has 64 KB
FEW = 8  # tensors that may stay: those of the last call
SOON = 10.0  # seconds in which operations that no rank waits for end, on a busy host too
TOUCH = 300  # calls in which NCCL touches all its buffers

made = []  # weak references to the tensors of the calls


def tensor(elements):
    """Return a new tensor that is watched."""
    new = torch.ones(elements)
    made.append(weakref.ref(new))
    return new


def alive():
    """Return how many tensors of the calls are there."""
    return sum(ref() is not None for ref in made)


def resident():
    """Return the resident memory of this process in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


class Operations:
    """Each public method makes one call of an operation, or of several."""

    def __init__(self, rank, size):
        self._rank, self._size, self._part = rank, size, ELEMENTS // size
        self._next, self._previous = (rank + 1) % size, (rank - 1) % size
        self._works = []
        self._world = dist.group.WORLD
        self._group = dist.new_group(list(range(size)))
        self._alone = [dist.new_group([r]) for r in range(size)][rank]
        for group in (self._world, self._group):
            for _ in range(TOUCH):
                dist.all_reduce(torch.ones(ELEMENTS), group=group)

    def _parts(self):
        return [tensor(self._part) for _ in range(self._size)]

    def all_reduce(self):
        dist.all_reduce(tensor(ELEMENTS))

    def all_reduce_of_a_group(self):
        dist.all_reduce(tensor(ELEMENTS), group=self._group)

    def all_reduce_of_one_rank(self):
        dist.all_reduce(tensor(ELEMENTS), group=self._alone)

    def all_reduce_of_a_view(self):
        dist.all_reduce(tensor(ELEMENTS)[::2])

    def waited_later(self):
        """Works that are waited for later, and their results."""
        self._works.append(dist.all_reduce(tensor(ELEMENTS), async_op=True))
        if len(self._works) == 8:
            for work in self._works:
                work.wait()
                check(len(work.result()) == 1, "result")
            self._works.clear()

    def dropped(self):
        """Works that nobody waits for."""
        dist.all_reduce(tensor(ELEMENTS), async_op=True)

    def future(self):
        """A future that nobody waits for, with a callback."""
        dist.all_reduce(tensor(ELEMENTS), async_op=True).get_future().then(lambda future: future.value()[0])

    def reduce(self):
        dist.reduce(tensor(ELEMENTS), 0)

    def broadcast(self):
        dist.broadcast(tensor(ELEMENTS), 0)

    def all_gather(self):
        dist.all_gather(self._parts(), tensor(self._part))

    def gather(self):
        dist.gather(tensor(self._part), self._parts() if self._rank == 0 else None, 0)

    def scatter(self):
        dist.scatter(tensor(self._part), self._parts() if self._rank == 0 else None, 0)

    def reduce_scatter(self):
        dist.reduce_scatter(tensor(self._part), self._parts())

    def all_to_all(self):
        dist.all_to_all(self._parts(), self._parts())

    def all_to_all_single(self):
        dist.all_to_all_single(tensor(ELEMENTS), tensor(ELEMENTS))

    def into_tensor(self):
        """all_gather_into_tensor and reduce_scatter_tensor, by the names that every torch has."""
        self._world._allgather_base(tensor(ELEMENTS), tensor(self._part)).wait()
        self._world._reduce_scatter_base(tensor(self._part), tensor(ELEMENTS)).wait()

    def coalesced(self):
        dist.all_reduce_coalesced([tensor(100), tensor(ELEMENTS)])
        if version() >= (2, 14):
            with dist.distributed_c10d._coalescing_manager():
                dist.all_reduce(tensor(ELEMENTS))

    def functional(self):
        """A call of C++, which has the work until the program waits."""
        if version() >= (2, 6):
            from torch.distributed._functional_collectives import all_reduce

            all_reduce(tensor(ELEMENTS), "sum", self._world).wait()

    def pair(self):
        if self._rank % 2:
            dist.recv(tensor(ELEMENTS), self._previous)
        else:
            dist.send(tensor(ELEMENTS), self._next)

    def ring(self):
        """Sends that nobody waits for."""
        dist.isend(tensor(ELEMENTS), self._next)
        dist.irecv(tensor(ELEMENTS), self._previous).wait()

    def batch(self):
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor(ELEMENTS), self._next),
                                            dist.P2POp(dist.irecv, tensor(ELEMENTS), self._previous)]):
            work.wait()

    def barrier(self):
        dist.barrier()

    def monitored_barrier(self):
        dist.monitored_barrier()

    def objects(self):
        dist.broadcast_object_list([" " * ELEMENTS], 0)
        dist.all_gather_object([None] * self._size, " " * ELEMENTS)


SLOW = {"monitored_barrier": 100}  # there are so many times fewer calls: with the store of torch 1.13 one takes 0.1 to 0.4 s


def measure(name, call, calls, megabytes):
    """Make the calls of an operation, and check what they keep."""
    for _ in range(3):  # the first calls make connections
        call()
    dist.barrier()
    made.clear()
    before, began = resident(), time.monotonic()
    for _ in range(calls):
        call()
    took, grown, end = time.monotonic() - began, resident() - before, alive()
    while alive() > FEW and time.monotonic() < began + took + SOON:
        time.sleep(0.02)
    say(f"{name}: {calls} calls in {took:.1f} s, {grown:.1f} MB more, {end} of {len(made)} tensors at the end, then {alive()}")
    check(alive() <= FEW and grown < megabytes, f"{name} keeps {alive()} tensors and {grown:.0f} MB")
    dist.barrier()


def main(calls, megabytes, *names):
    operations = Operations(*start())
    for name, method in vars(Operations).items():
        if not name.startswith("_") and (not names or name in names):
            measure(name, method.__get__(operations), calls // SLOW.get(name, 1), megabytes)
    dist.destroy_process_group()


main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
