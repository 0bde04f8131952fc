# SPDX-License-Identifier: Apache-2.0
"""A torch that was built for CUDA: cuda_build.py [LIBRARY...]. The libraries are loaded for all to see, before the first group."""

import ctypes
import sys

import torch
import torch.distributed as dist
from job import check, same, say, start


def main():
    for path in sys.argv[1:]:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    rank, size = start()
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), size * (size + 1) / 2), "all_reduce")
    check(torch.cuda.device_count() == 0 and not torch.cuda.is_available(), "GPUs", torch.cuda.device_count())
    with open("/proc/self/maps", encoding="utf-8") as maps:
        text = maps.read()
    for path in sys.argv[1:]:
        check(path in text, "not loaded", path)
    say("CUDA", torch.version.cuda, "is beside ddlemu's")
    dist.destroy_process_group()


main()
