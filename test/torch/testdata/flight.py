# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch's flight recorder has while rank 1 has not made a call that rank 0 has made."""

import os
import sys
import time

import torch
import torch.distributed as dist

try:
    from torch._C._distributed_c10d import FlightRecorderHook, _dump_fr_trace  # noqa: F401
except ImportError:
    print("no recorder")
    sys.exit()

folder = sys.argv[1]
dist.init_process_group("ddlemu")
rank = dist.get_rank()
dist.all_reduce(torch.ones(64))


def dump():
    path = os.path.join(folder, f"nccl_trace_rank_{rank}")
    with open(path + ".part", "wb") as f:
        f.write(_dump_fr_trace(True, True, False, "ddlemu"))
    os.rename(path + ".part", path)


if rank == 0:
    work = dist.all_reduce(torch.ones(128), async_op=True)
    dump()
    work.wait()
else:
    dump()
    while not os.path.exists(os.path.join(folder, "nccl_trace_rank_0")):
        time.sleep(0.01)
    dist.all_reduce(torch.ones(128))
dist.destroy_process_group()
