# SPDX-License-Identifier: Apache-2.0
"""Takes all links of node 1 down in step 5, for 2 s of virtual time."""

import ctypes
import os
import subprocess
import threading

import torch
import torch.distributed as dist

nccl = ctypes.CDLL(os.environ["DDLEMU_TORCH_NCCL"])  # has ddlemu's functions too
nccl.ddlemu_now.restype = ctypes.c_int64


def shape(change):
    program = subprocess.Popen(["ddlemu", "shape", "--node", "1", change], stdout=subprocess.DEVNULL)
    while program.poll() is None:  # the clock waits for a thread that runs, not for one that sleeps
        pass
    assert program.returncode == 0


def up_after(seconds, ready):
    nccl.ddlemu_compute(ctypes.c_int64(0))  # from here on the clock waits for this thread
    ready.set()
    nccl.ddlemu_compute(ctypes.c_int64(int(seconds * 1e9)))
    shape("--up")


dist.init_process_group("ddlemu")
rank, later = dist.get_rank(), None
for step in range(8):
    if rank == 0 and step == 5:
        shape("--down")
        ready = threading.Event()
        later = threading.Thread(target=up_after, args=[2, ready])
        later.start()
        ready.wait()
    before = nccl.ddlemu_now()
    dist.all_reduce(torch.ones(1 << 20))
    if rank == 0:
        print("step", step, (nccl.ddlemu_now() - before) / 1e6, "ms", flush=True)
if later:
    later.join()
dist.destroy_process_group()
