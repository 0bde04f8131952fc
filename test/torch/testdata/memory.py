# SPDX-License-Identifier: Apache-2.0
"""What groups cost: memory.py groups N LIMIT makes N groups of all ranks; each rank may take LIMIT MB per group.
memory.py again N LIMIT initialises and destroys torch.distributed N times; a rank may grow by LIMIT MB per time.
"""

import gc
import re
import sys
import time

import torch
import torch.distributed as dist
from job import check, say, start, version


def megabytes():
    """Return the memory of this process, without that of files such as libraries; of memory that it shares, its part.

    The part of libraries depends on how many other processes have loaded them.
    """
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        text = file.read()
    return sum(int(re.search(rf"^Pss_{kind}:\s+(\d+) kB", text, re.MULTILINE)[1]) for kind in ("Anon", "Shmem")) / 1024


def total(value):
    """Return the sum of a value over the ranks."""
    tensor = torch.tensor([float(value)])
    dist.all_reduce(tensor)
    return tensor.item()


def groups(count, limit):
    python = megabytes()
    start()
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    world = megabytes()
    began = time.monotonic()
    for _ in range(count):
        dist.all_reduce(tensor, group=dist.new_group(list(range(dist.get_world_size()))))
    each = (megabytes() - world) / count
    say(f"{python:.0f} MB for Python and torch, {world - python:.1f} MB for the first communicator, {each:.1f} MB and "
        f"{(time.monotonic() - began) / count:.2f} s for each of {count} groups")
    everything = total(world + each * count), total(world - python + each * count)
    if dist.get_rank() == 0:
        say(f"all ranks: {everything[0]:.0f} MB, without Python and torch {everything[1]:.0f} MB")
    check(each < limit, f"a group takes {each:.1f} MB, more than {limit}")
    dist.destroy_process_group()


def again(count, limit):
    warm = 3  # the first rounds load what stays
    for i in range(warm + count):
        if i == warm:
            before = megabytes()
        start()
        dist.all_reduce(torch.ones(1000))
        dist.barrier()
        dist.destroy_process_group()
        gc.collect()
        if version() < (2, 0):  # a rank that is faster would connect to the store that is about to end
            time.sleep(1)
    grown = (megabytes() - before) / count
    say(f"{grown:.2f} MB more per time, of {before:.0f} MB")
    check(grown < limit, f"it grows by {grown:.2f} MB each time, more than {limit}")


globals()[sys.argv[1]](int(sys.argv[2]), float(sys.argv[3]))
