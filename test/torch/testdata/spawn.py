# SPDX-License-Identifier: Apache-2.0
"""Starts two ranks without a launcher: spawn.py file, tcp or fork. Or is one of mpirun's ranks: spawn.py mpi PORT."""

import os
import socket
import sys
import time

import ddlemu_torch  # noqa: F401  before torch, which then looks for backends while this is imported
import job
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank, size, method):
    dist.init_process_group("ddlemu", init_method=method, rank=rank, world_size=size)
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor)
    job.same(tensor, torch.full((1000,), 3.0), "all_reduce")
    job.say("sum", tensor[0].item())
    dist.destroy_process_group()


def forked_main(rank, size, method):
    """End without destroy_process_group, before the other rank has taken what this one has sent."""
    dist.init_process_group("ddlemu", init_method=method, rank=rank, world_size=size)
    dist.barrier()
    if rank == 0:
        time.sleep(1)
    tensor = torch.full((1000,), 3.0 * rank)
    dist.broadcast(tensor, 1)
    job.same(tensor, torch.full((1000,), 3.0), "broadcast")
    job.say("sum", tensor[0].item())


def main():
    how = sys.argv[1]
    if how == "mpi":
        rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
        rank_main(rank, size, f"tcp://127.0.0.1:{sys.argv[2]}")
        return
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    method = f"tcp://127.0.0.1:{port}" if how == "tcp" else f"file://{os.getcwd()}/store"
    if how == "fork":
        mp.start_processes(forked_main, (2, method), nprocs=2, start_method="fork")
    else:
        mp.spawn(rank_main, (2, method), nprocs=2)


if __name__ == "__main__":
    main()
