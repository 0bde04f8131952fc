# SPDX-License-Identifier: Apache-2.0
"""A first job. It prints where the backend and the plugin were loaded from, each of which must be there once."""

import os

import torch
import torch.distributed as dist
from job import check, same, say, start


def main():
    rank, size = start()
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), size * (size + 1) / 2), "all_reduce")
    say("sum", tensor[0].item())
    import ddlemu_torch

    with open("/proc/self/maps", encoding="utf-8") as maps:
        plugins = {line.split()[-1] for line in maps if line.rstrip().endswith("/libgoemu.so")}
    check(len(plugins) == 1, "plugins", plugins)
    say("backend", os.path.dirname(ddlemu_torch.__file__), "plugin", *plugins)
    dist.destroy_process_group()


main()
