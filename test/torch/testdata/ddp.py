# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with DDP for 10 steps and prints the SHA-256 of its weights."""

import hashlib
import sys

import torch
import torch.distributed as dist
from job import say, start


def main():
    rank, size = start(sys.argv[1])
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(),
              torch.nn.Linear(128, 10)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.05)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(10):
        inputs, labels = torch.randn(32, 64, generator=generator), torch.randint(0, 10, (32,), generator=generator)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
    say("weights", digest.hexdigest())
    dist.destroy_process_group()


main()
