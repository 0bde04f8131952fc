# SPDX-License-Identifier: Apache-2.0
"""One hang of the calls of a program, which the argument names. Each rank prints the error of its call, and ends with 0.

The ranks must not wait for each other after the error: a deadlock on the virtual clock ends all calls of a rank.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

LARGE = 16 << 20  # elements, more than the buffers of NCCL hold


def connect(rank):
    """Connect both directions of the pair, so that NCCL's buffers can take a message."""
    for sender in (0, 1):
        if rank == sender:
            dist.send(torch.ones(1), 1 - rank)
        else:
            dist.recv(torch.empty(1), 1 - rank)


def isend_irecv(rank):
    """Large messages in both directions without a batch."""
    connect(rank)
    works = [dist.isend(torch.ones(LARGE), 1 - rank), dist.irecv(torch.empty(LARGE), 1 - rank)]
    for work in works:
        work.wait()


def unconnected(rank):
    """The same as the first calls of the pair: NCCL cannot even connect, whatever the size."""
    works = [dist.isend(torch.ones(1), 1 - rank), dist.irecv(torch.empty(1), 1 - rank)]
    for work in works:
        work.wait()


def send_first(rank):
    """Blocking sends of both ranks."""
    connect(rank)
    dist.send(torch.ones(LARGE), 1 - rank)
    dist.recv(torch.empty(LARGE), 1 - rank)


def recv_first(rank):
    """Blocking receives of both ranks."""
    connect(rank)
    dist.recv(torch.empty(1), 1 - rank)
    dist.send(torch.ones(1), 1 - rank)


def two_groups(rank):
    """Two groups of the same ranks, which rank 1 takes in the other order."""
    groups = [dist.new_group(timeout=LIMIT) for _ in range(2)]
    for group in groups:
        dist.all_reduce(torch.ones(1000), group=group)
    for group in groups if rank == 0 else groups[::-1]:
        dist.all_reduce(torch.ones(1000), group=group)


def no_receiver(rank):
    """A message that nobody receives, while the other rank waits in a collective."""
    connect(rank)
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        dist.send(torch.ones(LARGE), 1)
    dist.all_reduce(torch.ones(3))


def batch(rank):
    """A batch whose partner does not come."""
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(LARGE), 1)]):
            work.wait()
    dist.all_reduce(torch.ones(3))


def barrier(rank):
    """A barrier that rank 1 leaves out: it waits for a message."""
    connect(rank)
    dist.barrier()
    if rank == 0:
        dist.barrier()
        dist.send(torch.ones(3), 1)
    else:
        dist.recv(torch.empty(3), 0)


def types(rank):
    """A message of other elements than those that are received."""
    connect(rank)
    if rank == 0:
        dist.send(torch.ones(4), 1)
        dist.all_reduce(torch.ones(1))
    else:
        dist.recv(torch.empty(3, dtype=torch.float64), 0)


def batch_types(rank):
    """The same in a batch."""
    dist.all_reduce(torch.ones(3))
    op = dist.P2POp(dist.isend, torch.ones(4), 1) if rank == 0 else dist.P2POp(dist.irecv, torch.empty(3), 0)
    for work in dist.batch_isend_irecv([op]):
        work.wait()
    dist.all_reduce(torch.ones(1))


def roots(rank):
    """A broadcast with two roots."""
    dist.broadcast(torch.ones(3), rank)


def ring(rank):
    """All ranks first send to the next one: each waits for the communicator of another pair."""
    size = dist.get_world_size()
    work = dist.isend(torch.ones(1), (rank + 1) % size)
    dist.recv(torch.empty(1), (rank - 1) % size)
    work.wait()


LIMIT = datetime.timedelta(seconds=8)
dist.init_process_group("ddlemu", timeout=LIMIT)
try:
    globals()[sys.argv[1]](dist.get_rank())
    told = "no error"
except RuntimeError as error:
    told = str(error)
os.write(1, f"rank {dist.get_rank()}: {told}\n".encode())  # in one call, so that the lines of two ranks do not mix
store, others = dist.distributed_c10d._get_default_store(), range(dist.get_world_size())
store.set(f"told {dist.get_rank()}", "1")
store.wait([f"told {other}" for other in others], datetime.timedelta(seconds=60))
time.sleep(1)  # rank 0, which has the store, ends last
os._exit(0)
