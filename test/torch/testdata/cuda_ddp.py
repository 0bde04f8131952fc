"""DDP of a small network, unchanged for GPUs: prints the losses, and the hash of the weights."""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH, INPUTS, CLASSES = 10, 32, 64, 10


def sync_batch_norm(device):
    """Check that SyncBatchNorm on parts of a batch is BatchNorm on the whole."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    whole = torch.randn(2 * ranks, 3, 4, generator=torch.Generator().manual_seed(1))
    outputs, gradients, running = [], [], []
    for norm, batch in ((nn.BatchNorm1d(3), whole), (nn.SyncBatchNorm(3).to(device), whole[2 * rank:][:2].to(device))):
        batch.requires_grad_()
        out = norm(batch)
        out.pow(3).sum().backward()
        part = slice(2 * rank, 2 * rank + 2) if norm.__class__ is nn.BatchNorm1d else slice(None)
        outputs.append(out[part].detach().cpu())
        gradients.append(batch.grad[part].cpu())
        running.append(norm.running_var.cpu())
    for want, got in (outputs, gradients, running):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


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
    if kind == "cuda":
        sync_batch_norm(device)
    weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
    if dist.get_rank() == 0:
        print("result weights", hashlib.sha256(weights).hexdigest(), flush=True)
        if kind == "cuda":
            print("backend", type(dist.distributed_c10d._get_default_group()._get_backend(device)).__name__,
                  torch.cuda.get_device_name(), torch.cuda.device_count(), flush=True)
    dist.destroy_process_group()


main(sys.argv[1])
