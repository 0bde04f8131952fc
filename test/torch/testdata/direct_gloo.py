# SPDX-License-Identifier: Apache-2.0
"""A program that makes an object of gloo's class itself, as torchft does."""

import os

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), size, rank == 0)
group = dist.ProcessGroupGloo(store, rank, size)
tensor = torch.ones(3)
group.allreduce([tensor]).wait()
print("sum", tensor[0].item())
