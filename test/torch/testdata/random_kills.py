# SPDX-License-Identifier: Apache-2.0
"""random_kills.py SEED: a random rank is killed by SIGKILL at a random moment of a random operation.

Every other rank must raise within 2 s, and name the rank that was killed. The victim writes the time of its death.
"""

import os
import random
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from job import check, say, start

PROMISE = 2.0  # seconds


def all_reduce(rank, size):
    dist.all_reduce(torch.ones(random.choice((1, 1000, 1_000_000))))


def all_gather(rank, size):
    dist.all_gather([torch.empty(5000) for _ in range(size)], torch.ones(5000))


def all_to_all(rank, size):
    dist.all_to_all([torch.empty(20_000) for _ in range(size)], [torch.ones(20_000) for _ in range(size)])


def broadcast(rank, size):
    dist.broadcast(torch.ones(100_000), random.randrange(size))


def ring(rank, size):
    """Send to the next rank, and receive from the one before."""
    ops = [dist.P2POp(dist.isend, torch.ones(50_000), (rank + 1) % size),
           dist.P2POp(dist.irecv, torch.empty(50_000), (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()


def barrier(rank, size):
    dist.barrier()


def futures(rank, size):
    """Several operations in flight, of which only the futures are waited for."""
    works = [dist.all_reduce(torch.ones(10_000), async_op=True) for _ in range(8)]
    torch.futures.wait_all([work.get_future() for work in works])


class Training:
    """Steps of DDP."""

    def __init__(self):
        torch.manual_seed(1)
        layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
        self.model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.05)

    def __call__(self, rank, size):
        self.model(torch.ones(4, 64)).sum().backward()


OPERATIONS = {f.__name__: f for f in (all_reduce, all_gather, all_to_all, broadcast, ring, barrier, futures)}
OPERATIONS["training"] = None


def die(after):
    time.sleep(after)
    with open("killed.new", "w", encoding="utf-8") as file:
        file.write(repr(time.monotonic()))
    os.rename("killed.new", "killed")
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    seed = int(sys.argv[1])
    random.seed(seed)  # the same on all ranks
    rank, size = start(timeout=60)
    names = sorted(OPERATIONS)
    name = names[seed % len(names)]
    victim, after = random.randrange(size), random.uniform(0.0, 1.5)
    operation = OPERATIONS[name] or Training()
    operation(rank, size)  # the communicators are made
    dist.barrier()
    if rank == victim:
        threading.Thread(target=die, args=(after,), daemon=True).start()
    try:
        while True:
            operation(rank, size)
    except RuntimeError as error:
        raised, text = time.monotonic(), str(error).splitlines()[0]
    while not os.path.exists("killed"):
        check(time.monotonic() < raised + 5, "it raised before the kill:", text)
        time.sleep(0.01)
    with open("killed", encoding="utf-8") as file:
        took = raised - float(file.read())
    named = f"rank {victim} died" in text or f"rank {victim} of the job died" in text
    check(named and f"on rank {rank}" in text, f"{name}, rank {victim} killed:", text)
    check(took <= PROMISE, f"{name}: it took {took:.2f} s: {text}")
    say(f"raised after {took:.2f} s in {name}: {text}")
    os._exit(0)


main()
