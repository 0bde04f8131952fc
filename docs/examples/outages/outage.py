# SPDX-License-Identifier: Apache-2.0
"""Trains by DistributedDataParallel and prints the virtual time of each step. outage.yaml takes links down in step 5."""

import ctypes
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

nccl = ctypes.CDLL(os.environ["DDLEMU_TORCH_NCCL"])  # has ddlemu's functions too
nccl.ddlemu_now.restype = ctypes.c_int64

dist.init_process_group("ddlemu")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1, 9):
    before = nccl.ddlemu_now()
    nccl.ddlemu_compute(ctypes.c_int64(10_000_000))
    loss = model(torch.ones(4, 512) * (dist.get_rank() + 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.barrier()
    if dist.get_rank() == 0:
        print("step", step, (nccl.ddlemu_now() - before) / 1e6, "ms", flush=True)
dist.destroy_process_group()
