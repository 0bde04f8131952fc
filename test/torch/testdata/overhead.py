# SPDX-License-Identifier: Apache-2.0
"""What a blocking all_reduce takes with this backend, with gloo, and in C on the same communicator: overhead.py LOOP.SO

The three take turns, in one process per rank. Rank 0 prints a line per size: the number of floats, and the medians in
microseconds.
"""

import ctypes
import statistics
import sys
import time

import torch
import torch.distributed as dist
from job import check, start

SIZES = (1, 1000, 100_000)
TURNS, CALLS = 9, 40  # each turn makes this many calls


def in_c(path, group):
    """Return a function that makes calls in C on the communicator of a group."""
    communicator = group.communicator()
    library = communicator.library
    cuda = ctypes.CDLL(library.path).cudaStreamSynchronize
    loop = ctypes.CDLL(path).all_reduces
    loop.restype, loop.argtypes = ctypes.c_double, [ctypes.c_void_p] * 6 + [ctypes.c_size_t, ctypes.c_int]
    functions = [ctypes.cast(f, ctypes.c_void_p) for f in (library.ncclAllReduce, library.ncclCommGetAsyncError, cuda)]

    def run(tensor):
        seconds = loop(*functions, communicator._handle, communicator._stream, tensor.data_ptr(), tensor.numel(), CALLS)
        check(seconds >= 0, "a call in C failed")
        return seconds

    return run


def in_python(group):
    """Return a function that makes calls by torch.distributed in a group."""

    def run(tensor):
        began = time.monotonic()
        for _ in range(CALLS):
            dist.all_reduce(tensor, group=group)
        return time.monotonic() - began

    return run


def main():
    rank, _ = start()
    world = dist.group.WORLD
    backend = world if hasattr(world, "group") else world._get_backend(torch.device("cpu"))
    gloo = dist.new_group(backend="gloo")
    dist.barrier()
    runs = [in_python(None), in_python(gloo), in_c(sys.argv[1], backend.group)]
    for size in SIZES:
        times = [[] for _ in runs]
        for turn in range(TURNS + 1):
            for run, found in zip(runs, times):
                dist.barrier()
                seconds = run(torch.zeros(size))
                if turn:  # the first makes connections
                    found.append(1e6 * seconds / CALLS)
        if rank == 0:
            print(size, *(f"{statistics.median(found):.1f}" for found in times), flush=True)
    dist.destroy_process_group()


main()
