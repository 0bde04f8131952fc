# SPDX-License-Identifier: Apache-2.0
"""Takes all links of node 1 down in step 5, for good."""

import subprocess

import torch
import torch.distributed as dist


def shape(*change):
    program = subprocess.Popen(["ddlemu", "shape", "--node", "1", *change])
    while program.poll() is None:  # the virtual clock waits for a thread that runs, not for one that sleeps
        pass


dist.init_process_group("ddlemu")
rank = dist.get_rank()
for step in range(10):
    if rank == 0 and step == 5:
        shape("--down")
    dist.all_reduce(torch.ones(1 << 20))
    if rank == 0:
        print("step", step, flush=True)
dist.destroy_process_group()
