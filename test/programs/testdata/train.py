# SPDX-License-Identifier: Apache-2.0
"""Trains a small model with DistributedDataParallel over gloo for 20 steps. Each rank
has its own random data. Prints each step's loss and the time of the shortest step.
Each line is one write, so that the lines of two ranks do not mix."""

import time

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
WARMUP = 3  # DDP rebuilds its buckets after the first step

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
layers = torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.Generator().manual_seed(100 + rank)
times = []
for step in range(STEPS):
    x = torch.randn(64, 16, generator=data)
    start = time.perf_counter()
    loss = mse_loss(model(x), x.sum(1, keepdim=True).sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.perf_counter() - start)
    print(f"rank {rank} step {step} loss {loss.item():.9f}\n", end="")
print(f"rank {rank} shortest {min(times[WARMUP:]) * 1e3:.3f} ms\n", end="")
dist.destroy_process_group()
