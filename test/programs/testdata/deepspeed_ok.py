# SPDX-License-Identifier: Apache-2.0
"""Each rank says that it is there, after an all-reduce and a barrier."""

import os
import socket

import ddlemu_torch  # noqa: F401 (torch before 2.5 does not look for backends)
import torch
import torch.distributed as dist

dist.init_process_group("ddlemu")
rank, world = dist.get_rank(), dist.get_world_size()
t = torch.full((1000,), float(rank))
dist.all_reduce(t)
assert t[0].item() == world * (world - 1) / 2
dist.barrier()
# One write: the ranks of a node share a pipe.
os.write(1, f"[{socket.gethostname()}-{os.environ['LOCAL_RANK']}] is OK (global rank: {rank}/{world})\n".encode())
dist.destroy_process_group()
