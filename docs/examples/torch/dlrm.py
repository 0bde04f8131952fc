# SPDX-License-Identifier: Apache-2.0
"""Recommendation as DLRM does it: embedding tables that are divided among the ranks, and DDP of the other layers.

A rank looks up its tables for the whole batch. An all-to-all then gives each rank the vectors of all tables for its
part of the batch. The clicks that the model learns to predict are made up by this program.
"""

import torch
import torch.distributed as dist
from common import arguments, exact, mean, run, say
from moe_all_to_all import AllToAll
from torch import nn
from torch.nn import functional

TABLES, ROWS, WIDTH, NUMBERS = 8, 1000, 16, 4
BATCH = 256  # of all ranks together


def clicks(args, step):
    """Return numbers, a row of each table, and whether there was a click: of users that like some rows."""
    generator = torch.Generator().manual_seed(args.seed * 1_000_003 + step)
    numbers = torch.randn(BATCH, NUMBERS, generator=generator)
    # Small row numbers are frequent.
    rows = (ROWS * torch.rand(BATCH, TABLES, generator=generator) ** 4).long()
    liked = ((rows * 7919 + torch.arange(TABLES)) % 3 - 1).sum(1)
    return numbers, rows, (liked + numbers.sum(1) > 0).float()


class Dense(nn.Module):
    """The layers that all ranks have."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.3))  # of the vectors, whose elements are normal at first
        self.bottom = nn.Sequential(nn.Linear(NUMBERS, 32), nn.ReLU(), nn.Linear(32, WIDTH))
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(nn.Linear(WIDTH + pairs, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, numbers, vectors):
        """Return the logits. The products of all pairs of vectors are inputs of the last layers."""
        dense = self.bottom(numbers)
        every = torch.cat([dense[:, None], self.scale * vectors], 1)
        products = every @ every.transpose(1, 2)
        first, second = torch.tril_indices(TABLES + 1, TABLES + 1, -1)
        return self.top(torch.cat([dense, products[:, first, second]], 1)).squeeze(1)


def train(args):
    """Train. Return this rank's weights."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if TABLES % size:
        raise SystemExit(f"{TABLES} tables are not divisible by {size} ranks: start 2 or 4 ranks")
    own, part = TABLES // size, BATCH // size
    dense, tables = Dense(), [nn.Embedding(ROWS, WIDTH) for _ in range(TABLES)]  # all ranks make the same ones
    tables = tables[rank * own:(rank + 1) * own]
    if args.exact:
        for parameter in dense.parameters():
            parameter.register_hook(exact)  # called before DDP adds up the gradients of all ranks
    model = nn.parallel.DistributedDataParallel(dense)
    optimiser = torch.optim.Adam(dense.parameters(), lr=0.005)
    sparse = torch.optim.Adagrad([t.weight for t in tables], lr=0.1)
    for step in range(args.steps):
        numbers, rows, clicked = clicks(args, step)
        optimiser.zero_grad()
        sparse.zero_grad()
        looked_up = torch.cat([table(rows[:, rank * own + i]) for i, table in enumerate(tables)], 1)
        received = AllToAll.apply(looked_up, [part] * size, [part] * size)  # by source
        vectors = received.view(size, part, own, WIDTH).transpose(0, 1).reshape(part, TABLES, WIDTH)
        mine = slice(rank * part, (rank + 1) * part)
        loss = functional.binary_cross_entropy_with_logits(model(numbers[mine], vectors), clicked[mine])
        loss.backward()
        for table in tables:
            table.weight.grad /= size  # the sum of the gradients of all ranks' parts, of which each is a mean
        optimiser.step()
        sparse.step()
        if step % 10 == 0 or step == args.steps - 1:
            say(f"step {step:3}  loss {mean(loss):.6f}")
    return [t.weight for t in tables] + list(dense.parameters())


if __name__ == "__main__":
    run(train, arguments(__doc__, steps=60))
