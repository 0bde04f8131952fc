"""DDP of a small network, unchanged for GPUs: prints the losses, and the hash of the weights."""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH, INPUTS, CLASSES = 10, 32, 64, 10


def main(kind):
    local = int(os.environ["LOCAL_RANK"])
    device = torch.device(kind, local if kind == "cuda" else None)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(INPUTS, 256), nn.ReLU(), nn.Linear(256, CLASSES)).to(device)
    model = DistributedDataParallel(model, device_ids=[local] if kind == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.Generator().manual_seed(100 + dist.get_rank())
    for step in range(STEPS):
        x = torch.randn(BATCH, INPUTS, generator=data).to(device)
        y = torch.randint(0, CLASSES, (BATCH,), generator=data).to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print("result loss", step, repr(total.item()), flush=True)
    weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
    if dist.get_rank() == 0:
        print("result weights", hashlib.sha256(weights).hexdigest(), flush=True)
        if kind == "cuda":
            print("backend", type(dist.distributed_c10d._get_default_group()._get_backend(device)).__name__,
                  torch.cuda.get_device_name(), torch.cuda.device_count(), flush=True)
    dist.destroy_process_group()


main(sys.argv[1])
