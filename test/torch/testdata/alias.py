# SPDX-License-Identifier: Apache-2.0
"""A job that names gloo and knows nothing of ddlemu. It prints the sum."""

import torch
import torch.distributed as dist
from job import same, say, start


def main():
    rank, size = start("gloo")
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), size * (size + 1) / 2), "all_reduce")
    say("sum", tensor[0].item())
    dist.destroy_process_group()


main()
