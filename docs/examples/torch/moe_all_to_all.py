# SPDX-License-Identifier: Apache-2.0
"""Mixture of experts: an all-to-all brings each token to the rank that has its expert, and a second one brings it back.

A token is an image of the digits of cnn_ddp.py. A router chooses one of four experts for it. The experts are divided
among the ranks; all other layers are on all ranks, which average their gradients.
"""

import torch
import torch.distributed as dist
from cnn_ddp import digits
from common import arguments, exact, mean, run, say
from torch import nn
from torch.nn import functional

EXPERTS, WIDTH, BATCH = 4, 64, 128  # tokens of all ranks together


class AllToAll(torch.autograd.Function):
    """Sends rows to the other ranks. Gradients go the opposite way."""

    @staticmethod
    def forward(context, rows, sent, received):
        context.sent, context.received = sent, received
        output = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(output, rows.contiguous(), received, sent)
        return output

    @staticmethod
    def backward(context, gradient):
        return AllToAll.apply(gradient, context.received, context.sent), None, None


class Experts(nn.Module):
    """A layer of experts, of which each rank has some."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        # All ranks make all experts, so that these are the same with any number of ranks, and keep their own.
        experts = [nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
                   for _ in range(EXPERTS)]
        self.count = EXPERTS // dist.get_world_size()
        first = dist.get_rank() * self.count
        self.experts = nn.ModuleList(experts[first:first + self.count])

    def forward(self, tokens):
        """Return the tokens after their experts, and the loss that grows if experts get unequal numbers of tokens."""
        shares = self.router(tokens).softmax(1)
        weight, expert = shares.max(1)
        order = expert.argsort(stable=True)
        counts = expert.bincount(minlength=EXPERTS)
        arriving = torch.empty_like(counts)  # by source and expert
        dist.all_to_all_single(arriving, counts)
        sent, received = (c.reshape(-1, self.count).sum(1).tolist() for c in (counts, arriving))
        rows = AllToAll.apply(tokens[order], sent, received)
        owner = torch.arange(self.count).repeat(dist.get_world_size()).repeat_interleave(arriving)
        results = torch.empty_like(rows)
        for number, module in enumerate(self.experts):
            results[owner == number] = module(rows[owner == number])
        returned = AllToAll.apply(results, received, sent)
        balance = EXPERTS * (shares.mean(0) * counts / len(tokens)).sum()
        return tokens + weight[:, None] * torch.empty_like(returned).index_copy(0, order, returned), balance


class Model(nn.Module):
    """A linear layer, the experts, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.first, self.moe, self.last = nn.Linear(144, WIDTH), Experts(), nn.Linear(WIDTH, 10)

    def forward(self, images):
        tokens, balance = self.moe(self.first(images.flatten(1)).relu())
        return self.last(tokens), balance


def add_gradients(model, args):
    """Make each gradient the mean over the ranks. A rank's experts have the gradients of all ranks' tokens already."""
    own = {id(p) for p in model.moe.experts.parameters()}
    shared = [p.grad for p in model.parameters() if id(p) not in own]
    flat = torch.cat([g.flatten() for g in shared])
    flat = exact(flat) if args.exact else flat
    dist.all_reduce(flat)
    for gradient, total in zip(shared, flat.split([g.numel() for g in shared])):
        gradient.copy_(total.view_as(gradient))
    for parameter in model.parameters():
        parameter.grad /= dist.get_world_size()


def train(args):
    """Train. Return this rank's weights."""
    rank, size = dist.get_rank(), dist.get_world_size()
    if EXPERTS % size:
        raise SystemExit(f"{EXPERTS} experts are not divisible by {size} ranks: start 2 or 4 ranks")
    model = Model()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    for step in range(args.steps):
        images, labels = digits(BATCH, args.seed * 1_000_003 + step)
        optimiser.zero_grad()
        output, balance = model(images[rank::size])
        loss = functional.cross_entropy(output, labels[rank::size])
        (loss + 0.1 * balance).backward()
        add_gradients(model, args)
        optimiser.step()
        if step % 10 == 0 or step == args.steps - 1:
            say(f"step {step:3}  loss {mean(loss):.6f}  balance {mean(balance):.3f}")
    return list(model.parameters())


if __name__ == "__main__":
    run(train, arguments(__doc__, steps=60))
