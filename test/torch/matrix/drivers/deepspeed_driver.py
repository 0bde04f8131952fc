# SPDX-License-Identifier: Apache-2.0
"""Adds up a tensor over all ranks, and says so, as people test a cluster with DeepSpeed's launcher."""

import os
import socket

import torch
import torch.distributed as dist

dist.init_process_group("ddlemu")
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.full((1000,), rank + 1.0)
dist.all_reduce(tensor)
if not torch.equal(tensor, torch.full((1000,), size * (size + 1) / 2)):
    raise SystemExit(f"rank {rank} has {tensor}")
dist.barrier()
print(f"[{socket.gethostname()}-{os.environ['LOCAL_RANK']}] is OK (global rank: {rank}/{size})", flush=True)
dist.destroy_process_group()
