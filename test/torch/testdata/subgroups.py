# SPDX-License-Identifier: Apache-2.0
"""Adds in groups of some of the ranks, as tensor and data parallelism do, and prints how long each call takes, in ns."""

import ddlemu_torch
import torch
import torch.distributed as dist
from job import same, say, start


def main():
    rank, size = start()
    pairs = [[0, 1], [2, 3]]  # of a node each
    columns = [[0, 2], [1, 3]]
    groups = [(members, dist.new_group(members)) for members in pairs + columns]
    dist.barrier()
    timer = ddlemu_torch.StepTimer()
    for members, group in groups:
        if rank in members:
            tensor = torch.full((1 << 18,), rank + 1.0)
            dist.all_reduce(tensor, group=group)
            same(tensor, torch.full((1 << 18,), sum(members) + 2.0), members)
            say("within" if members in pairs else "between", timer.step().total_ns)
    tensor = torch.full((1 << 18,), rank + 1.0)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1 << 18,), size * (size + 1) / 2), "all")
    say("all", timer.step().total_ns)
    dist.destroy_process_group()


main()
