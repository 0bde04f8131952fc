#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model with DDP for 20 steps. It writes each loss and a hash of the parameters,
which losses.py compares with those of another run."""

import hashlib
import json
import os

# It makes matrix products the same in every run on one machine. cuBLAS reads it when it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ranks

STEPS, BATCH, WIDTH, OUT = 20, 64, 256, 10


def batch(rank, step, device):
    """Returns a rank's data. It is drawn on the CPU, so that it does not depend on the GPU."""
    g = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(BATCH, WIDTH, generator=g)
    return x.to(device), torch.tanh(x[:, :OUT]).to(device)


def digest(model):
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(bytes(p.detach().cpu().contiguous().view(torch.uint8).flatten().tolist()))
    return h.hexdigest()


def train(r):
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, OUT))
    on = [r.device] if r.device.type == "cuda" else None
    # The buckets are small, so that a step has several all_reduces.
    ddp = DistributedDataParallel(model.to(r.device), device_ids=on, bucket_cap_mb=0.25)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        x, y = batch(r.rank, step, r.device)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, digest(model)


def main():
    p = ranks.parser(__doc__)
    p.add_argument("--out", required=True, help="folder for rankN.json")
    p.add_argument("--separate-hosts", action="store_true", help="make NCCL treat every rank as on a separate host")
    options = p.parse_args()
    if options.separate_hosts:
        # Without the plugin, NCCL refuses ranks on one host that share a GPU.
        os.environ["NCCL_HOSTID"] = "reference-" + os.environ["RANK"]
    torch.use_deterministic_algorithms(True)
    r = ranks.Rank(options)
    r.join()
    losses, parameters = train(r)
    with open(os.path.join(options.out, "rank%d.json" % r.rank), "w") as f:
        json.dump({"losses": [loss.hex() for loss in losses], "parameters": parameters}, f)
    r.say("loss %.4f at first, %.4f at last" % (losses[0], losses[-1]))
    if not losses[-1] < losses[0]:
        raise SystemExit("rank %d: the loss did not decrease" % r.rank)
    r.checks = STEPS
    r.leave()


if __name__ == "__main__":
    main()
