# SPDX-License-Identifier: Apache-2.0
"""Trains with DDP and prints when each step ends, in ns, and its computation."""

import sys

import ddlemu_torch
import torch
import torch.distributed as dist
from job import check, say, start


def main():
    start()
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.05)
    dist.barrier()
    timer = ddlemu_torch.StepTimer()
    for _ in range(int(sys.argv[1])):
        model(torch.ones(8, 64)).sum().backward()
        step = timer.step()
        ddlemu_torch.step()  # a mark in the ledger of a job that is traced
        # A rank whose computation takes longer than the messages does not wait at all.
        check(step.begin_ns + step.compute_ns + step.waiting_ns == step.end_ns and step.waiting_ns >= 0, step)
        check(step.total_ns > 0, step)
        say("step", step.number, step.end_ns, step.compute_ns)
    say(timer)
    dist.destroy_process_group()


main()
